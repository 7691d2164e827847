// The command `weightloom`.
#include <csignal>
#include <span>

#include "weightloom/base/syscalls.h"
#include "weightloom/cli/command_line.h"

int main(int argc, char** argv) {
  using namespace weightloom;
  cli::occupy_standard_streams();
  // A file size limit is then an error of the write, told like a full disk, not the end of the
  // process.
  std::signal(SIGXFSZ, SIG_IGN);
  const cli::CommandContext context = {system_calls(), cli::terminal_of(stdout),
                                       cli::terminal_of(stderr)};
  const std::span<const char* const> arguments(argv, static_cast<size_t>(argc));
  return static_cast<int>(
      cli::run_command_line(arguments.empty() ? arguments : arguments.subspan(1), context));
}
