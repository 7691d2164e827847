#include "weightloom/execute/budget.h"

#include <algorithm>
#include <charconv>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <thread>

#include <fcntl.h>
#include <fmt/format.h>
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

/// Where this process stands in a hierarchy of cgroups ("/user.slice/job.scope"; "" at its root):
/// what follows `mark` in /proc/self/cgroup.
std::string cgroup_path(const Syscalls& calls, std::string_view mark) {
  const std::string text = "\n" + read_kernel_file(calls, "/proc/self/cgroup");
  const size_t at = text.find(mark);
  if (at == std::string::npos) return "";
  const size_t begin = at + mark.size();
  const std::string path = text.substr(begin, text.find('\n', begin) - begin);
  return path == "/" ? "" : path;
}

/// The smallest limit of the group and of all above it.
int64_t lowered_by_groups(const Syscalls& calls, int64_t limit, const std::string& root,
                          std::string group, const std::string& file) {
  while (true) {
    const std::string path = fmt::format("{}{}{}", root, group, file);
    if (auto value = leading_number(read_kernel_file(calls, path))) limit = std::min(limit, *value);
    if (group.empty()) return limit;
    group.resize(std::min(group.rfind('/'), group.size() - 1));
  }
}

int64_t memory_limit(const Syscalls& calls) {
  int64_t limit = static_cast<int64_t>(sysconf(_SC_PHYS_PAGES)) * sysconf(_SC_PAGESIZE);
  limit =
      lowered_by_groups(calls, limit, "/sys/fs/cgroup", cgroup_path(calls, "\n0::"), "/memory.max");
  return lowered_by_groups(calls, limit, "/sys/fs/cgroup/memory", cgroup_path(calls, ":memory:"),
                           "/memory.limit_in_bytes");
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
