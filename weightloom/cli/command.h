// A verb of the command line: its flags, and what it does.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "weightloom/base/syscalls.h"
#include "weightloom/cli/terminal.h"

namespace CLI {
class App;
}

namespace weightloom::cli {

/// What the process ends with; stable, scripts depend on it.
enum class ExitCode {
  done = 0,         // done, or equal
  differs = 1,      // plan, verify and diff: error findings or differences
  wrong_usage = 2,  // the command line makes no sense
  refused = 3,      // refused, failed or cancelled
};

/// What a verb works with.
struct CommandContext {
  const Syscalls& calls;
  Terminal out;  // what stdout is
  Terminal err;  // what stderr is
};

/// One verb. Flags are bound to its members, so that a value of it runs once.
class Command {
 public:
  virtual ~Command() = default;

  virtual std::string name() const = 0;
  /// One line for the list of verbs.
  virtual std::string summary() const = 0;
  /// What `--help` says after the flags: examples that run as they stand.
  virtual std::string examples() const = 0;
  virtual void declare(CLI::App& app) = 0;
  /// True for verbs that scripts of the package use, which `--help` leaves out.
  virtual bool is_hidden() const { return false; }
  /// Prints its result on stdout.
  /// Errors: any weightloom::Error, printed by the caller.
  virtual ExitCode run(const CommandContext& context) = 0;
  /// The exit code of an Error other than wrong usage and cancel.
  virtual ExitCode failure_code() const { return ExitCode::refused; }
  /// True if findings that leniency lets pass are no errors.
  virtual bool is_lenient() const { return false; }
};

using Commands = std::vector<std::unique_ptr<Command>>;

}  // namespace weightloom::cli
