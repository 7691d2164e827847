// Files over the seam: whole transfers, retries on EINTR, errors that name the path.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "weightloom/base/error.h"
#include "weightloom/base/export.h"
#include "weightloom/base/syscalls.h"

namespace weightloom WEIGHTLOOM_EXPORT {

/// The Error for a failed call: `doing` is a verb phrase ("write"), `error` an errno.
/// ENOENT/ENOTDIR → not_found, EEXIST/ENOTEMPTY → exists, EACCES/EPERM/EROFS → permission,
/// ENOSPC/EDQUOT/EFBIG → no_space, else io.
Error system_error(int error, std::string_view doing, const std::string& path);

/// An open file; closes itself. Movable. Borrows the Syscalls, which must outlive it.
/// Thread safety: read_at, write_at and the sync calls may run concurrently.
class File {
 public:
  /// Errors: not_found, permission, io.
  static File open_read(const Syscalls& calls, const std::string& path);
  /// Creates or truncates; mode 0666 less the umask.
  static File create(const Syscalls& calls, const std::string& path);
  /// Opens for reading and writing, creates when absent, keeps what is there (for resuming).
  static File open_write(const Syscalls& calls, const std::string& path);

  /// Opens an existing file for writing past the page cache; nothing where the filesystem cannot.
  static std::optional<File> open_direct(const Syscalls& calls, const std::string& path);
  /// Opens a folder, to lock it.
  static File open_folder(const Syscalls& calls, const std::string& path);

  File(File&& other) noexcept;             ///< Leaves the other one closed.
  File& operator=(File&& other) noexcept;  ///< Closes what it held.
  File(const File&) = delete;
  File& operator=(const File&) = delete;
  ~File();

  /// As it was opened.
  const std::string& path() const noexcept { return path_; }
  FileStatus status() const;  ///< What it is now. Errors: io.
  /// Locks it until it is closed, also by the end of the process; false while another open File
  /// holds the lock. Where the filesystem has no locks, true. Errors: io.
  bool lock() const;

  /// Reads buffer.size() bytes at `offset`.
  /// Errors: io, also if the file ends before (with
  /// numbers).
  void read_at(std::span<std::byte> buffer, int64_t offset) const;
  /// Reads consecutive bytes from `offset` into several buffers, in few calls.
  void read_at(std::span<const std::span<std::byte>> buffers, int64_t offset) const;
  /// Errors: no_space, io.
  void write_at(std::span<const std::byte> buffer, int64_t offset) const;
  /// One write of a file opened by open_direct: how many bytes it took, 0 where the filesystem
  /// refuses the alignment of buffer, offset or size. Errors: no_space, io.
  size_t write_direct_at(std::span<const std::byte> buffer, int64_t offset) const;
  /// Lets the kernel move up to `size_bytes` from another file into this one, in one call: how many
  /// it moved; nothing where it cannot between these two files. Errors: no_space; io, also if the
  /// source ends before.
  std::optional<int64_t> copy_from(const File& source, int64_t source_offset, int64_t offset,
                                   int64_t size_bytes) const;
  void truncate(int64_t size_bytes) const;  ///< Sets the size. Errors: no_space, io.
  /// Reserves `size_bytes`; where the filesystem cannot, only sets the size.
  void allocate(int64_t size_bytes) const;
  void sync() const;       ///< fsync: data and size are durable
  void sync_data() const;  ///< fdatasync
  /// Asks the system to begin writing a range to disk; a failure does not matter.
  void start_writeback(int64_t offset, int64_t size_bytes) const noexcept;
  /// posix_fadvise; a failure does not matter.
  void advise(int64_t offset, int64_t size_bytes, int advice) const noexcept;
  /// Closes and reports a failure, which a destructor cannot.
  void close();

 private:
  File(const Syscalls& calls, std::string path);  // not open yet
  File(const Syscalls& calls, std::string path, int flags);

  const Syscalls* calls_;
  std::string path_;
  int fd_ = -1;
};

inline constexpr size_t kSpareBytes = 64;  ///< What read_whole_file leaves behind the text.
/// Its capacity exceeds its size by kSpareBytes, so that parsers that look past the end need no
/// copy.
/// Errors: format if it is no regular file; not_found, permission, io.
std::string read_whole_file(const Syscalls& calls, const std::string& path);
/// Creates or replaces `path` with `text`, synced. Not atomic by itself.
void write_whole_file(const Syscalls& calls, const std::string& path, std::string_view text);
/// Nothing if there is no such path. Follows links.
std::optional<FileStatus> status_of(const Syscalls& calls, const std::string& path);
/// Names in a folder, sorted bytewise.
std::vector<std::string> list_folder(const Syscalls& calls, const std::string& path);
/// Makes entries of a folder durable (fsync of the folder).
void sync_folder(const Syscalls& calls, const std::string& path);
/// Makes a folder; fine if it exists.
/// Errors: not_found, permission, no_space, io.
void make_folder(const Syscalls& calls, const std::string& path);
/// Removes a file or a folder with all it holds; fine if absent. Does not follow links.
void remove_all(const Syscalls& calls, const std::string& path);
/// A second name for a file. Errors: exists, permission, io.
void hard_link(const Syscalls& calls, const std::string& from, const std::string& to);
/// Replaces `to` in one step. Errors: not_found, permission, io.
void rename_path(const Syscalls& calls, const std::string& from, const std::string& to);

/// "a/b" + "c" → "a/b/c"; "" + "c" → "c".
std::string join_path(std::string_view folder, std::string_view name);
/// "a/b/c" → "a/b"; "c" → "."; "/c" → "/".
std::string parent_path(std::string_view path);
/// "a/b/c" → "c"; a trailing slash is ignored.
std::string base_name(std::string_view path);

}  // namespace weightloom
