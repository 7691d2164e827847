#include "weightloom/execute/budget.h"

#include <algorithm>
#include <charconv>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <thread>

#include <fcntl.h>
#include <unistd.h>

namespace weightloom {
namespace {

constexpr int64_t kLargestDefault = int64_t{1} << 30;
constexpr int64_t kSmallestDefault = int64_t{16} << 20;

/// The whole of a small file of the kernel's, which states no size; "" if it cannot be read.
std::string read_kernel_file(const Syscalls& calls, const std::string& path) {
  const int fd = calls.open(path, O_RDONLY, 0);
  if (fd < 0) return "";
  std::string text(4096, '\0');
  const int64_t size = calls.pread(fd, std::as_writable_bytes(std::span(text)), 0);
  calls.close(fd);
  text.resize(size > 0 ? static_cast<size_t>(size) : 0);
  return text;
}

std::optional<int64_t> leading_number(std::string_view text) {
  int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || value <= 0) return std::nullopt;
  return value;
}

int64_t memory_limit(const Syscalls& calls) {
  int64_t limit = static_cast<int64_t>(sysconf(_SC_PHYS_PAGES)) * sysconf(_SC_PAGESIZE);
  for (const char* path :
       {"/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes"}) {
    if (auto value = leading_number(read_kernel_file(calls, path))) limit = std::min(limit, *value);
  }
  return limit;
}

}  // namespace

int64_t default_memory_budget(const Syscalls& calls) {
  return std::clamp(memory_limit(calls) / 8, kSmallestDefault, kLargestDefault);
}

int default_threads() noexcept {
  return std::max(4, static_cast<int>(std::thread::hardware_concurrency()));
}

int64_t resident_bytes(const Syscalls& calls) {
  const std::string text = read_kernel_file(calls, "/proc/self/statm");
  const size_t space = text.find(' ');
  if (space == std::string::npos) return 0;
  return leading_number(std::string_view(text).substr(space + 1)).value_or(0) *
         sysconf(_SC_PAGESIZE);
}

}  // namespace weightloom
