// The command `weightloom`.
#include <csignal>
#include <span>

#include <malloc.h>

#include "weightloom/base/syscalls.h"
#include "weightloom/cli/command_line.h"

namespace {

/// The command holds what it allocates for as long as it runs, so memory that it frees is better
/// kept for the next use than given back to the system, which would have to clear it again.
void keep_freed_memory() {
  mallopt(M_MMAP_THRESHOLD, 32 << 20);
  mallopt(M_TRIM_THRESHOLD, 1 << 30);
}

}  // namespace

int main(int argc, char** argv) {
  using namespace weightloom;
  cli::occupy_standard_streams();
  keep_freed_memory();
  // A file size limit is then an error of the write, told like a full disk, not the end of the
  // process.
  std::signal(SIGXFSZ, SIG_IGN);
  const cli::CommandContext context = {system_calls(), cli::terminal_of(stdout),
                                       cli::terminal_of(stderr)};
  const std::span<const char* const> arguments(argv, static_cast<size_t>(argc));
  return static_cast<int>(
      cli::run_command_line(arguments.empty() ? arguments : arguments.subspan(1), context));
}
