#include "weightloom/cli/command_line.h"

#include <algorithm>
#include <exception>
#include <iterator>
#include <new>
#include <string_view>
#include <vector>

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include "weightloom/cli/completion_command.h"
#include "weightloom/cli/convert_command.h"
#include "weightloom/cli/diff_command.h"
#include "weightloom/cli/failure_output.h"
#include "weightloom/cli/help_format.h"
#include "weightloom/cli/inspect_command.h"
#include "weightloom/cli/man_command.h"
#include "weightloom/cli/mappings_command.h"
#include "weightloom/cli/plan_command.h"
#include "weightloom/cli/repair_index_command.h"
#include "weightloom/cli/usage_hint.h"
#include "weightloom/cli/verify_command.h"
#include "weightloom/version.h"

namespace weightloom::cli {
namespace {

constexpr const char* kProgram = "weightloom";

Commands all_commands() {
  Commands commands;
  commands.push_back(make_inspect_command());
  commands.push_back(make_plan_command());
  commands.push_back(make_convert_command());
  commands.push_back(make_verify_command());
  commands.push_back(make_diff_command());
  commands.push_back(make_mappings_command());
  commands.push_back(make_repair_index_command());
  commands.push_back(make_completion_command());
  commands.push_back(make_man_command());
  return commands;
}

/// The parser of all verbs; borrows the commands.
class CommandParser {
 public:
  explicit CommandParser(const Commands& commands) : app_(kProgramHelp, kProgram) {
    app_.option_defaults()->group("Flags");
    app_.formatter(std::make_shared<HelpFormat>());
    app_.footer(kProgramFooter);
    app_.set_help_flag("-h,--help", "Print this help");
    app_.set_version_flag("--version", fmt::format("{} {}", kProgram, version()),
                          "Print the version");
    app_.require_subcommand(1, 1);
    for (const auto& command : commands) add(*command);
  }

  /// Errors: CLI::ParseError, and what the flags' values say.
  void parse(std::span<const char* const> arguments) {
    std::vector<std::string> reversed(arguments.rbegin(), arguments.rend());
    app_.parse(std::move(reversed));
  }

  CLI::App& app() noexcept { return app_; }
  /// The verb that the arguments named; null before, or without one.
  CLI::App* verb() const {
    const auto parsed = app_.get_subcommands();
    return parsed.empty() ? nullptr : parsed.front();
  }

 private:
  void add(Command& command) {
    CLI::App* verb = app_.add_subcommand(command.name(), command.summary());
    verb->group(command.is_hidden() ? "" : "Verbs");
    verb->get_help_ptr()->group("Flags");
    verb->footer(command.examples());
    command.declare(*verb);
  }

  CLI::App app_;
};

/// One run of the program.
class Session {
 public:
  Session(std::span<const char* const> arguments, const CommandContext& context)
      : arguments_(arguments), context_(context), commands_(all_commands()), parser_(commands_) {}

  ExitCode run() {
    try {
      return parse_and_run();
    } catch (const Error& error) {
      return fail(error);
    } catch (const std::bad_alloc&) {
      return fail(Error(ErrorCode::io, "out of memory", "give less with --memory-budget"));
    } catch (const std::exception& error) {
      return fail(Error(ErrorCode::io, error.what()));
    }
  }

 private:
  ExitCode parse_and_run() {
    try {
      parser_.parse(arguments_);
    } catch (const CLI::CallForHelp&) {
      write_stdout(parser_.app().help());
      return ExitCode::done;
    } catch (const CLI::CallForVersion& version) {
      write_stdout(std::string(version.what()) + "\n");
      return ExitCode::done;
    } catch (const CLI::ParseError& error) {
      throw usage_error(parser_.app(), parser_.verb(), error);
    }
    return command()->run(context_);
  }

  Command* command() const {
    const CLI::App* verb = parser_.verb();
    for (const auto& candidate : commands_) {
      if (verb != nullptr && candidate->name() == verb->get_name()) return candidate.get();
    }
    return nullptr;
  }

  ExitCode fail(const Error& error) noexcept {
    try {
      tell(error);
    } catch (const std::exception&) {
      // A stream does not take the message; the other one, or the code, still says it.
    }
    if (error.code() == ErrorCode::usage) return ExitCode::wrong_usage;
    if (error.code() == ErrorCode::cancelled || command() == nullptr) return ExitCode::refused;
    return command()->failure_code();
  }

  void tell(const Error& error) const {
    const Command* verb = command();
    const std::string who =
        verb == nullptr ? kProgram : fmt::format("{} {}", kProgram, verb->name());
    if (wants_json()) {
      write_stderr(closing_line(who, error, context_.err));
      write_stdout(failure_json(error));
    } else {
      const bool lenient = verb != nullptr && verb->is_lenient();
      write_stderr(failure_text(who, error, lenient, context_.err));
    }
  }

  /// Asked of the arguments themselves, since a failure to parse them must be told as JSON too.
  bool wants_json() const {
    return std::any_of(arguments_.begin(), arguments_.end(),
                       [](std::string_view argument) { return argument == "--json"; });
  }

  std::span<const char* const> arguments_;
  const CommandContext& context_;
  Commands commands_;
  CommandParser parser_;
};

}  // namespace

ExitCode run_command_line(std::span<const char* const> arguments, const CommandContext& context) {
  return Session(arguments, context).run();
}

}  // namespace weightloom::cli
