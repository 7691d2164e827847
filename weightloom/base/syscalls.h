// The file seam: every access to a filesystem goes through one of these functions, so that a test
// can fail any of them, shorten any transfer and lose unsynced data.
//
// Each mirrors one POSIX call, makes one attempt, and returns the call's result or -errno; loops,
// retries and errors with names live in file.h.
// Thread safety: implementations allow concurrent
// calls.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "weightloom/base/export.h"

namespace weightloom WEIGHTLOOM_EXPORT {

/// What stands at a path.
enum class FileKind { file, folder, link, other };

/// What stat says of a path. `device` and `inode` identify the file, `mtime_ns` its last change.
struct FileStatus {
  FileKind kind = FileKind::file;  ///< what it is
  int64_t size_bytes = 0;          ///< of a file
  uint64_t device = 0;             ///< which file system
  uint64_t inode = 0;              ///< which file of it
  int64_t mtime_ns = 0;            ///< last change, since 1970
  uint32_t mode = 0;               ///< permission bits

  friend bool operator==(const FileStatus&, const FileStatus&) = default;
};

/// `error` is 0 or -errno; `status` counts only when it is 0.
struct StatResult {
  int error = 0;      ///< 0 or -errno
  FileStatus status;  ///< valid if error is 0
};

/// The names in a folder, or why there are none.
struct ListResult {
  int error = 0;                   ///< 0 or -errno
  std::vector<std::string> names;  ///< without "." and "..", in no order
};

/// Where a symbolic link leads, or why that is not known.
struct LinkResult {
  int error = 0;       ///< 0 or -errno
  std::string target;  ///< as it stands in the link
};

/// Every access to a filesystem; see the top of this file.
class Syscalls {
 public:
  virtual ~Syscalls() = default;

  /// `flags` and `mode` as for open(2); O_CLOEXEC is added. Returns a descriptor.
  virtual int open(const std::string& path, int flags, uint32_t mode) const = 0;
  virtual int close(int fd) const = 0;  ///< close(2).
  /// pread(2): how many bytes were read, 0 at the end of the file.
  virtual int64_t pread(int fd, std::span<std::byte> buffer, int64_t offset) const = 0;
  /// preadv(2), into several buffers.
  virtual int64_t preadv(int fd, std::span<const std::span<std::byte>> buffers,
                         int64_t offset) const = 0;
  /// pwrite(2): how many bytes were written.
  virtual int64_t pwrite(int fd, std::span<const std::byte> buffer, int64_t offset) const = 0;
  virtual int fsync(int fd) const = 0;  ///< fsync(2): data and size are durable when it returns 0.
  virtual int fdatasync(int fd) const = 0;                ///< fdatasync(2).
  virtual int ftruncate(int fd, int64_t size) const = 0;  ///< ftruncate(2).
  /// flock(2) for this descriptor alone, without waiting: -EWOULDBLOCK while another one holds it.
  virtual int lock(int fd) const = 0;
  /// copy_file_range(2): the kernel moves bytes from one file to another; how many.
  virtual int64_t copy_file_range(int from, int64_t from_offset, int to, int64_t to_offset,
                                  int64_t size) const = 0;
  /// posix_fallocate without its slow emulation: -EOPNOTSUPP where the filesystem has none.
  virtual int fallocate(int fd, int64_t size) const = 0;
  /// Starts writeback of a range; a hint.
  virtual int start_writeback(int fd, int64_t offset, int64_t size) const = 0;
  /// posix_fadvise(2) with `advice`; a hint.
  virtual int advise(int fd, int64_t offset, int64_t size, int advice) const = 0;

  /// Follows symbolic links.
  virtual StatResult stat(const std::string& path) const = 0;
  /// As stat, of the link itself.
  virtual StatResult lstat(const std::string& path) const = 0;
  virtual StatResult fstat(int fd) const = 0;  ///< As stat, of an open file.
  /// Where a symbolic link points, as it is written.
  virtual LinkResult readlink(const std::string& path) const = 0;
  /// True access of this process: access(2) with `mode` (R_OK, W_OK, X_OK).
  virtual int access(const std::string& path, int mode) const = 0;
  virtual ListResult list(const std::string& path) const = 0;  ///< The names in a folder.
  /// mkdir(2) with mode 0777 less the umask.
  virtual int mkdir(const std::string& path) const = 0;
  virtual int rmdir(const std::string& path) const = 0;   ///< rmdir(2): the folder must be empty.
  virtual int unlink(const std::string& path) const = 0;  ///< unlink(2).
  /// link(2): a second name for a file; a symbolic link is linked as such.
  virtual int link(const std::string& from, const std::string& to) const = 0;
  /// As link; where `from` is a symbolic link, of the file that it leads to.
  virtual int link_followed(const std::string& from, const std::string& to) const = 0;
  /// rename(2): replaces `to`.
  virtual int rename(const std::string& from, const std::string& to) const = 0;
  /// renameat2 with RENAME_NOREPLACE: -EEXIST when `to` exists.
  virtual int rename_new(const std::string& from, const std::string& to) const = 0;
  /// renameat2 with RENAME_EXCHANGE: both exist, both swap places in one step.
  virtual int exchange(const std::string& a, const std::string& b) const = 0;
  /// Bytes free to this process on the filesystem that holds `path`, or -errno.
  virtual int64_t free_bytes(const std::string& path) const = 0;
  /// Of what kind the filesystem that holds `path` is: f_type of statfs(2), or -errno.
  virtual int64_t filesystem_type(const std::string& path) const = 0;
};

/// The operating system itself. Stateless.
const Syscalls& system_calls() noexcept;

}  // namespace weightloom
