#include "weightloom/base/syscalls.h"

#include <cerrno>
#include <climits>
#include <cstdio>
#include <memory>
#include <string_view>

#include <dirent.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/statvfs.h>
#include <sys/uio.h>
#include <unistd.h>

namespace weightloom {
namespace {

template <class T>
T result_or_errno(T result) {
  return result < 0 ? static_cast<T>(-errno) : result;
}

FileKind kind_of(mode_t mode) {
  if (S_ISREG(mode)) return FileKind::file;
  if (S_ISDIR(mode)) return FileKind::folder;
  if (S_ISLNK(mode)) return FileKind::link;
  return FileKind::other;
}

StatResult to_result(int error, const struct stat& found) {
  if (error < 0) return {.error = error, .status = {}};
  FileStatus status;
  status.kind = kind_of(found.st_mode);
  status.size_bytes = found.st_size;
  status.device = found.st_dev;
  status.inode = found.st_ino;
  status.mtime_ns = int64_t{found.st_mtim.tv_sec} * 1'000'000'000 + found.st_mtim.tv_nsec;
  status.mode = found.st_mode;
  return {.error = 0, .status = status};
}

class SystemCalls final : public Syscalls {
 public:
  int open(const std::string& path, int flags, uint32_t mode) const override {
    return result_or_errno(::open(path.c_str(), flags | O_CLOEXEC, mode));
  }
  int close(int fd) const override { return result_or_errno(::close(fd)); }

  int64_t pread(int fd, std::span<std::byte> buffer, int64_t offset) const override {
    return result_or_errno(::pread(fd, buffer.data(), buffer.size(), offset));
  }
  int64_t preadv(int fd, std::span<const std::span<std::byte>> buffers,
                 int64_t offset) const override {
    std::vector<iovec> parts;
    parts.reserve(buffers.size());
    for (const auto& buffer : buffers) parts.push_back({buffer.data(), buffer.size()});
    return result_or_errno(::preadv(fd, parts.data(), static_cast<int>(parts.size()), offset));
  }
  int64_t pwrite(int fd, std::span<const std::byte> buffer, int64_t offset) const override {
    return result_or_errno(::pwrite(fd, buffer.data(), buffer.size(), offset));
  }

  int fsync(int fd) const override { return result_or_errno(::fsync(fd)); }
  int fdatasync(int fd) const override { return result_or_errno(::fdatasync(fd)); }
  int ftruncate(int fd, int64_t size) const override {
    return result_or_errno(::ftruncate(fd, size));
  }
  int64_t copy_file_range(int from, int64_t from_offset, int to, int64_t to_offset,
                          int64_t size) const override {
    return result_or_errno(
        ::copy_file_range(from, &from_offset, to, &to_offset, static_cast<size_t>(size), 0));
  }
  int lock(int fd) const override { return result_or_errno(::flock(fd, LOCK_EX | LOCK_NB)); }
  int fallocate(int fd, int64_t size) const override {
    return result_or_errno(::fallocate(fd, 0, 0, size));
  }
  int start_writeback(int fd, int64_t offset, int64_t size) const override {
    return result_or_errno(::sync_file_range(fd, offset, size, SYNC_FILE_RANGE_WRITE));
  }
  int advise(int fd, int64_t offset, int64_t size, int advice) const override {
    return -::posix_fadvise(fd, offset, size, advice);  // gives the errno itself
  }

  StatResult stat(const std::string& path) const override {
    struct stat found = {};
    int error = result_or_errno(::stat(path.c_str(), &found));
    return to_result(error, found);
  }
  StatResult lstat(const std::string& path) const override {
    struct stat found = {};
    int error = result_or_errno(::lstat(path.c_str(), &found));
    return to_result(error, found);
  }
  StatResult fstat(int fd) const override {
    struct stat found = {};
    int error = result_or_errno(::fstat(fd, &found));
    return to_result(error, found);
  }
  LinkResult readlink(const std::string& path) const override {
    char target[PATH_MAX];
    ssize_t length = ::readlink(path.c_str(), target, sizeof(target));
    if (length < 0) return {.error = -errno, .target = {}};
    return {.error = 0, .target = std::string(target, static_cast<size_t>(length))};
  }
  int access(const std::string& path, int mode) const override {
    return result_or_errno(::access(path.c_str(), mode));
  }
  ListResult list(const std::string& path) const override;

  int mkdir(const std::string& path) const override {
    return result_or_errno(::mkdir(path.c_str(), 0777));
  }
  int rmdir(const std::string& path) const override {
    return result_or_errno(::rmdir(path.c_str()));
  }
  int unlink(const std::string& path) const override {
    return result_or_errno(::unlink(path.c_str()));
  }
  int link(const std::string& from, const std::string& to) const override {
    return result_or_errno(::link(from.c_str(), to.c_str()));
  }
  int link_followed(const std::string& from, const std::string& to) const override {
    return result_or_errno(
        ::linkat(AT_FDCWD, from.c_str(), AT_FDCWD, to.c_str(), AT_SYMLINK_FOLLOW));
  }
  int rename(const std::string& from, const std::string& to) const override {
    return result_or_errno(::rename(from.c_str(), to.c_str()));
  }
  int rename_new(const std::string& from, const std::string& to) const override {
    return result_or_errno(
        ::renameat2(AT_FDCWD, from.c_str(), AT_FDCWD, to.c_str(), RENAME_NOREPLACE));
  }
  int exchange(const std::string& a, const std::string& b) const override {
    return result_or_errno(::renameat2(AT_FDCWD, a.c_str(), AT_FDCWD, b.c_str(), RENAME_EXCHANGE));
  }
  int64_t filesystem_type(const std::string& path) const override {
    struct statfs found = {};
    if (::statfs(path.c_str(), &found) < 0) return -errno;
    return found.f_type;
  }
  int64_t free_bytes(const std::string& path) const override {
    struct statvfs found = {};
    if (::statvfs(path.c_str(), &found) < 0) return -errno;
    int64_t bytes = 0;
    bool too_large = __builtin_mul_overflow(found.f_bavail, found.f_frsize, &bytes);
    return too_large ? INT64_MAX : bytes;
  }
};

struct CloseFolder {
  void operator()(DIR* folder) const noexcept { ::closedir(folder); }
};

ListResult SystemCalls::list(const std::string& path) const {
  std::unique_ptr<DIR, CloseFolder> folder(::opendir(path.c_str()));
  if (!folder) return {.error = -errno, .names = {}};
  ListResult result;
  errno = 0;  // readdir tells its end from a failure by errno alone
  while (const dirent* entry = ::readdir(folder.get())) {
    std::string_view name = entry->d_name;
    if (name != "." && name != "..") result.names.emplace_back(name);
  }
  result.error = -errno;
  return result;
}

}  // namespace

const Syscalls& system_calls() noexcept {
  static const SystemCalls calls;
  return calls;
}

}  // namespace weightloom
