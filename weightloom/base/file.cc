#include "weightloom/base/file.h"

#include <algorithm>
#include <cerrno>
#include <climits>
#include <cstring>
#include <utility>

#include <fcntl.h>
#include <fmt/format.h>

namespace weightloom {
namespace {

constexpr uint32_t kNewFileMode = 0666;

/// Makes `call` until no signal interrupts it.
template <class Call>
auto retry(Call call) {
  auto result = call();
  while (result == -EINTR) result = call();
  return result;
}

void check(int64_t result, std::string_view doing, const std::string& path) {
  if (result < 0) throw system_error(static_cast<int>(-result), doing, path);
}

/// The words are put together only where they are needed: reads may be many and small.
void check_transfer(int64_t result, std::string_view verb, size_t size, int64_t offset,
                    const std::string& path) {
  if (result < 0) check(result, fmt::format("{} {} bytes at offset {}", verb, size, offset), path);
}

ErrorCode code_of(int error) {
  switch (error) {
    case ENOENT:
    case ENOTDIR:
      return ErrorCode::not_found;
    case EEXIST:
    case ENOTEMPTY:
      return ErrorCode::exists;
    case EACCES:
    case EPERM:
    case EROFS:
      return ErrorCode::permission;
    case ENOSPC:
    case EDQUOT:
    case EFBIG:
      return ErrorCode::no_space;
    default:
      return ErrorCode::io;
  }
}

std::string next_step_of(int error) {
  switch (error) {
    case ENOENT:
    case ENOTDIR:
      return "check the spelling of the path";
    case EACCES:
    case EPERM:
      return "check the owner and the permissions of the path";
    case EROFS:
      return "the filesystem is read-only: choose another place";
    case ENOSPC:
      return "free space on that filesystem, or choose another one";
    case EDQUOT:
      return "the disk quota is used up: free space, or raise the quota";
    case EFBIG:
      return "write smaller files (ulimit -f and the filesystem limit a file's size)";
    case EMFILE:
    case ENFILE:
      return "raise the limit of open files (ulimit -n)";
    default:
      return "";
  }
}

Error ended_early(const std::string& path, int64_t offset, int64_t needed, int64_t missing) {
  return Error(ErrorCode::io,
               fmt::format("{}: the file ends at byte {}, but bytes [{}, {}) are needed", path,
                           offset + needed - missing, offset, offset + needed),
               "the file is truncated or changed while it was read: fetch or write it again");
}

/// Drops the first `count` bytes of consecutive buffers.
std::span<std::span<std::byte>> drop_bytes(std::span<std::span<std::byte>> buffers, size_t count) {
  while (!buffers.empty() && count >= buffers.front().size()) {
    count -= buffers.front().size();
    buffers = buffers.subspan(1);
  }
  if (!buffers.empty()) buffers.front() = buffers.front().subspan(count);
  return buffers;
}

/// What filesystems without locks answer; NFS says EBADF of a folder, which none can open to write.
bool has_no_locks(int result) {
  return result == -EBADF || result == -ENOLCK || result == -EOPNOTSUPP || result == -ENOSYS ||
         result == -EINVAL;
}

/// What the kernel answers when it does not move bytes between two files, whatever the reason.
bool cannot_copy(int64_t result) {
  return result == -EXDEV || result == -EOPNOTSUPP || result == -ENOSYS || result == -EINVAL ||
         result == -EPERM || result == -ETXTBSY;
}

int64_t total_size(std::span<const std::span<std::byte>> buffers) {
  size_t total = 0;
  for (const auto& buffer : buffers) total += buffer.size();
  return static_cast<int64_t>(total);
}

/// The system's words for an error, in any state of the process: they open no file.
std::string words_of(int error) {
  char buffer[128];
  return strerror_r(error, buffer, sizeof buffer);
}

}  // namespace

Error system_error(int error, std::string_view doing, const std::string& path) {
  return Error(code_of(error), fmt::format("{}: cannot {}: {}", path, doing, words_of(error)),
               next_step_of(error));
}

File::File(const Syscalls& calls, std::string path) : calls_(&calls), path_(std::move(path)) {}

File::File(const Syscalls& calls, std::string path, int flags) : File(calls, std::move(path)) {
  fd_ = retry([&] { return calls_->open(path_, flags, kNewFileMode); });
  check(fd_, (flags & O_CREAT) != 0 ? "create" : "open", path_);
}

File File::open_read(const Syscalls& calls, const std::string& path) {
  return File(calls, path, O_RDONLY);
}

File File::create(const Syscalls& calls, const std::string& path) {
  return File(calls, path, O_RDWR | O_CREAT | O_TRUNC);
}

File File::open_write(const Syscalls& calls, const std::string& path) {
  return File(calls, path, O_RDWR | O_CREAT);
}

std::optional<File> File::open_direct(const Syscalls& calls, const std::string& path) {
  File file(calls, path);
  file.fd_ = retry([&] { return calls.open(path, O_WRONLY | O_DIRECT, kNewFileMode); });
  if (file.fd_ == -EINVAL || file.fd_ == -EOPNOTSUPP) return std::nullopt;
  check(file.fd_, "open for direct writing", path);
  return file;
}

File File::open_folder(const Syscalls& calls, const std::string& path) {
  return File(calls, path, O_RDONLY | O_DIRECTORY);
}

File::File(File&& other) noexcept
    : calls_(other.calls_), path_(std::move(other.path_)), fd_(std::exchange(other.fd_, -1)) {}

File& File::operator=(File&& other) noexcept {
  std::swap(calls_, other.calls_);
  std::swap(path_, other.path_);
  std::swap(fd_, other.fd_);
  return *this;
}

File::~File() {
  if (fd_ >= 0) calls_->close(fd_);
}

FileStatus File::status() const {
  auto result = calls_->fstat(fd_);
  check(result.error, "examine", path_);
  return result.status;
}

bool File::lock() const {
  const int result = retry([&] { return calls_->lock(fd_); });
  if (result == -EWOULDBLOCK) return false;
  if (!has_no_locks(result)) check(result, "lock", path_);
  return true;
}

void File::read_at(std::span<std::byte> buffer, int64_t offset) const {
  auto rest = buffer;
  while (!rest.empty()) {
    int64_t done = static_cast<int64_t>(buffer.size() - rest.size());
    int64_t count = retry([&] { return calls_->pread(fd_, rest, offset + done); });
    check_transfer(count, "read", rest.size(), offset + done, path_);
    if (count == 0) {
      throw ended_early(path_, offset, static_cast<int64_t>(buffer.size()),
                        static_cast<int64_t>(rest.size()));
    }
    rest = rest.subspan(static_cast<size_t>(count));
  }
}

void File::read_at(std::span<const std::span<std::byte>> buffers, int64_t offset) const {
  if (buffers.size() == 1) return read_at(buffers.front(), offset);
  std::vector<std::span<std::byte>> parts(buffers.begin(), buffers.end());
  auto rest = drop_bytes(parts, 0);
  int64_t needed = total_size(buffers);
  int64_t done = 0;
  while (done < needed) {
    auto batch = rest.first(std::min<size_t>(rest.size(), IOV_MAX));
    int64_t count = retry([&] { return calls_->preadv(fd_, batch, offset + done); });
    check_transfer(count, "read", static_cast<size_t>(needed - done), offset + done, path_);
    if (count == 0) throw ended_early(path_, offset, needed, needed - done);
    rest = drop_bytes(rest, static_cast<size_t>(count));
    done += count;
  }
}

void File::write_at(std::span<const std::byte> buffer, int64_t offset) const {
  auto rest = buffer;
  while (!rest.empty()) {
    int64_t at = offset + static_cast<int64_t>(buffer.size() - rest.size());
    int64_t count = retry([&] { return calls_->pwrite(fd_, rest, at); });
    // A write that makes no progress would loop for ever.
    if (count == 0) count = -EIO;
    check_transfer(count, "write", rest.size(), at, path_);
    rest = rest.subspan(static_cast<size_t>(count));
  }
}

size_t File::write_direct_at(std::span<const std::byte> buffer, int64_t offset) const {
  const int64_t count = retry([&] { return calls_->pwrite(fd_, buffer, offset); });
  if (count == -EINVAL) return 0;
  check_transfer(count, "write", buffer.size(), offset, path_);
  return static_cast<size_t>(count);
}

std::optional<int64_t> File::copy_from(const File& source, int64_t source_offset, int64_t offset,
                                       int64_t size_bytes) const {
  const int64_t count = retry(
      [&] { return calls_->copy_file_range(source.fd_, source_offset, fd_, offset, size_bytes); });
  if (cannot_copy(count)) return std::nullopt;
  check(count, fmt::format("copy {} bytes to offset {}", size_bytes, offset), path_);
  if (count == 0) throw ended_early(source.path_, source_offset, size_bytes, size_bytes);
  return count;
}

void File::truncate(int64_t size_bytes) const {
  check(retry([&] { return calls_->ftruncate(fd_, size_bytes); }),
        fmt::format("set the size to {} bytes", size_bytes), path_);
}

void File::allocate(int64_t size_bytes) const {
  if (size_bytes == 0) return;
  int result = retry([&] { return calls_->fallocate(fd_, size_bytes); });
  if (result == -EOPNOTSUPP || result == -ENOSYS) {
    if (status().size_bytes < size_bytes) truncate(size_bytes);
    return;
  }
  check(result, fmt::format("reserve {} bytes", size_bytes), path_);
}

void File::sync() const {
  check(retry([&] { return calls_->fsync(fd_); }), "make durable", path_);
}

void File::sync_data() const {
  check(retry([&] { return calls_->fdatasync(fd_); }), "make durable", path_);
}

void File::start_writeback(int64_t offset, int64_t size_bytes) const noexcept {
  calls_->start_writeback(fd_, offset, size_bytes);
}

void File::advise(int64_t offset, int64_t size_bytes, int advice) const noexcept {
  calls_->advise(fd_, offset, size_bytes, advice);
}

void File::close() {
  if (fd_ < 0) return;
  int result = calls_->close(std::exchange(fd_, -1));
  // Linux closes the descriptor even when a signal interrupts the call.
  if (result != -EINTR) check(result, "close", path_);
}

}  // namespace weightloom
