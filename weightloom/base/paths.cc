// The part of file.h that works on paths: whole files, folders, names.
#include <algorithm>
#include <cerrno>

#include <fcntl.h>
#include <fmt/format.h>

#include "weightloom/base/file.h"

namespace weightloom {
namespace {

void check(int result, std::string_view doing, const std::string& path) {
  if (result < 0) throw system_error(-result, doing, path);
}

std::string_view without_trailing_slashes(std::string_view path) {
  while (path.size() > 1 && path.back() == '/') path.remove_suffix(1);
  return path;
}

bool is_absent(int error) { return error == -ENOENT || error == -ENOTDIR; }

}  // namespace

std::string read_whole_file(const Syscalls& calls, const std::string& path) {
  // Opening a pipe or a device could wait for ever, so its kind is checked before.
  const auto found = status_of(calls, path);
  if (found && found->kind != FileKind::file) {
    throw Error(ErrorCode::format, fmt::format("{}: not a regular file", path),
                "put a file there, or remove it");
  }
  File file = File::open_read(calls, path);
  const auto size = static_cast<size_t>(file.status().size_bytes);
  std::string text;
  text.reserve(size + kSpareBytes);
  text.resize(size);
  file.read_at(std::as_writable_bytes(std::span(text)), 0);
  return text;
}

void write_whole_file(const Syscalls& calls, const std::string& path, std::string_view text) {
  File file = File::create(calls, path);
  file.write_at(std::as_bytes(std::span(text)), 0);
  file.sync();
  file.close();
}

std::optional<FileStatus> status_of(const Syscalls& calls, const std::string& path) {
  auto result = calls.stat(path);
  if (is_absent(result.error)) return std::nullopt;
  check(result.error, "examine", path);
  return result.status;
}

std::vector<std::string> list_folder(const Syscalls& calls, const std::string& path) {
  auto result = calls.list(path);
  check(result.error, "list", path);
  std::sort(result.names.begin(), result.names.end());
  return std::move(result.names);
}

void sync_folder(const Syscalls& calls, const std::string& path) {
  int fd = calls.open(path, O_RDONLY | O_DIRECTORY, 0);
  check(fd, "open", path);
  int result = calls.fsync(fd);
  while (result == -EINTR) result = calls.fsync(fd);
  calls.close(fd);
  // Filesystems without a notion of it (some network and FUSE ones) answer EINVAL; there is nothing
  // more that a caller could do for them.
  if (result != -EINVAL) check(result, "make durable", path);
}

void make_folder(const Syscalls& calls, const std::string& path) {
  int result = calls.mkdir(path);
  if (result == -EEXIST) {
    auto status = status_of(calls, path);
    if (status && status->kind == FileKind::folder) return;
  }
  check(result, "make the folder", path);
}

void remove_all(const Syscalls& calls, const std::string& path) {
  auto found = calls.lstat(path);
  if (is_absent(found.error)) return;
  check(found.error, "examine", path);
  if (found.status.kind != FileKind::folder) {
    check(calls.unlink(path), "remove", path);
    return;
  }
  for (const auto& name : list_folder(calls, path)) remove_all(calls, join_path(path, name));
  check(calls.rmdir(path), "remove the folder", path);
}

void hard_link(const Syscalls& calls, const std::string& from, const std::string& to) {
  check(calls.link(from, to), fmt::format("hard-link it as '{}'", to), from);
}

void rename_path(const Syscalls& calls, const std::string& from, const std::string& to) {
  check(calls.rename(from, to), fmt::format("rename it to '{}'", to), from);
}

std::string join_path(std::string_view folder, std::string_view name) {
  if (folder.empty()) return std::string(name);
  if (folder.back() == '/') return fmt::format("{}{}", folder, name);
  return fmt::format("{}/{}", folder, name);
}

std::string parent_path(std::string_view path) {
  path = without_trailing_slashes(path);
  size_t slash = path.rfind('/');
  if (slash == std::string_view::npos) return ".";
  if (slash == 0) return "/";
  return std::string(without_trailing_slashes(path.substr(0, slash)));
}

std::string base_name(std::string_view path) {
  path = without_trailing_slashes(path);
  size_t slash = path.rfind('/');
  return std::string(slash == std::string_view::npos ? path : path.substr(slash + 1));
}

}  // namespace weightloom
