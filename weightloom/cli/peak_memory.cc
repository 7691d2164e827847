#include "weightloom/cli/peak_memory.h"

#include <fstream>
#include <sstream>
#include <string>

#include "weightloom/execute/budget.h"

namespace weightloom::cli {

int64_t peak_resident_bytes(const Syscalls& calls) {
  // Not getrusage: its figure survives exec, so it may be that of the process that started this
  // one.
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);) {
    if (!line.starts_with("VmHWM:")) continue;
    std::istringstream fields(line.substr(6));
    int64_t kibibytes = 0;
    if (fields >> kibibytes) return kibibytes * 1024;
  }
  return resident_bytes(calls);
}

}  // namespace weightloom::cli
