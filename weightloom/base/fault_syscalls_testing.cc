#include "weightloom/base/fault_syscalls_testing.h"

#include <algorithm>
#include <cerrno>

#include <fcntl.h>

#include "weightloom/base/unsynced_state_testing.h"

namespace weightloom {

FaultSyscalls::FaultSyscalls(const Syscalls& real)
    : real_(real), unsynced_(std::make_unique<UnsyncedState>()) {}

FaultSyscalls::~FaultSyscalls() = default;

void FaultSyscalls::fail_call(int64_t number, int error) {
  std::lock_guard lock(mutex_);
  planned_.push_back({std::nullopt, number, error});
}

void FaultSyscalls::fail_call(CallKind kind, int64_t number, int error) {
  std::lock_guard lock(mutex_);
  planned_.push_back({kind, number, error});
}

void FaultSyscalls::fail_every(CallKind kind, int error) {
  std::lock_guard lock(mutex_);
  always_[kind] = error;
}

void FaultSyscalls::shorten_transfers(int64_t max_bytes, uint64_t seed) {
  std::lock_guard lock(mutex_);
  max_transfer_bytes_ = max_bytes;
  random_.seed(seed);
}

void FaultSyscalls::crash_at(int64_t number) {
  std::lock_guard lock(mutex_);
  crash_number_ = number;
}

bool FaultSyscalls::crashed() const {
  std::lock_guard lock(mutex_);
  return crashed_;
}

void FaultSyscalls::lose_unsynced_data() {
  std::lock_guard lock(mutex_);
  unsynced_->lose();
  crashed_ = false;
  crash_number_.reset();
}

int64_t FaultSyscalls::calls() const {
  std::lock_guard lock(mutex_);
  return total_;
}

int64_t FaultSyscalls::calls(CallKind kind) const {
  std::lock_guard lock(mutex_);
  return counts_[static_cast<size_t>(kind)];
}

int FaultSyscalls::count(CallKind kind) const {
  int64_t number = total_++;
  int64_t number_of_kind = counts_[static_cast<size_t>(kind)]++;
  if (crash_number_ && number >= *crash_number_) crashed_ = true;
  if (crashed_) return -EIO;
  for (const auto& fault : planned_) {
    if (fault.kind ? *fault.kind == kind && fault.number == number_of_kind
                   : fault.number == number) {
      return -fault.error;
    }
  }
  auto always = always_.find(kind);
  return always == always_.end() ? 0 : -always->second;
}

int64_t FaultSyscalls::transfer_size(size_t wanted) const {
  auto whole = static_cast<int64_t>(wanted);
  if (max_transfer_bytes_ == 0 || whole == 0) return whole;
  if (random_() % 4 == 0) return -EINTR;
  int64_t limit = std::min(whole, max_transfer_bytes_);
  return 1 + static_cast<int64_t>(random_() % static_cast<uint64_t>(limit));
}

int FaultSyscalls::open(const std::string& path, int flags, uint32_t mode) const {
  std::lock_guard lock(mutex_);
  if (int error = count(CallKind::open)) return error;
  bool is_new = (flags & O_CREAT) != 0 && real_.lstat(path).error == -ENOENT;
  int fd = real_.open(path, flags, mode);
  if (fd < 0) return fd;
  if (is_new) unsynced_->did_create(path);
  if ((flags & O_TRUNC) != 0) unsynced_->did_truncate(fd, 0);
  return fd;
}

int FaultSyscalls::close(int fd) const {
  std::lock_guard lock(mutex_);
  int error = count(CallKind::close);
  int result = real_.close(fd);  // a failed close closes too; tests must not run out of descriptors
  return error != 0 ? error : result;
}

int64_t FaultSyscalls::pread(int fd, std::span<std::byte> buffer, int64_t offset) const {
  int64_t size = 0;
  {
    std::lock_guard lock(mutex_);
    if (int error = count(CallKind::pread)) return error;
    size = transfer_size(buffer.size());
  }
  if (size < 0) return size;
  return real_.pread(fd, buffer.first(static_cast<size_t>(size)), offset);
}

int64_t FaultSyscalls::preadv(int fd, std::span<const std::span<std::byte>> buffers,
                              int64_t offset) const {
  size_t wanted = 0;
  for (const auto& buffer : buffers) wanted += buffer.size();
  int64_t size = 0;
  {
    std::lock_guard lock(mutex_);
    if (int error = count(CallKind::preadv)) return error;
    size = transfer_size(wanted);
  }
  if (size < 0) return size;
  auto rest = static_cast<size_t>(size);
  std::vector<std::span<std::byte>> parts;
  for (const auto& buffer : buffers) {
    if (rest == 0) break;
    parts.push_back(buffer.first(std::min(buffer.size(), rest)));
    rest -= parts.back().size();
  }
  return real_.preadv(fd, parts, offset);
}

int64_t FaultSyscalls::pwrite(int fd, std::span<const std::byte> buffer, int64_t offset) const {
  std::lock_guard lock(mutex_);
  if (int error = count(CallKind::pwrite)) return error;
  int64_t size = transfer_size(buffer.size());
  if (size < 0) return size;
  unsynced_->will_write(fd);
  int64_t written = real_.pwrite(fd, buffer.first(static_cast<size_t>(size)), offset);
  if (written > 0) unsynced_->did_write(fd, offset, written);
  return written;
}

int FaultSyscalls::fsync(int fd) const {
  std::lock_guard lock(mutex_);
  if (int error = count(CallKind::fsync)) return error;
  int result = real_.fsync(fd);
  if (result == 0) unsynced_->did_sync(fd);
  return result;
}

int FaultSyscalls::fdatasync(int fd) const {
  std::lock_guard lock(mutex_);
  if (int error = count(CallKind::fdatasync)) return error;
  int result = real_.fdatasync(fd);
  if (result == 0) unsynced_->did_sync(fd);
  return result;
}

int FaultSyscalls::ftruncate(int fd, int64_t size) const {
  std::lock_guard lock(mutex_);
  if (int error = count(CallKind::ftruncate)) return error;
  unsynced_->will_write(fd);
  int result = real_.ftruncate(fd, size);
  if (result == 0) unsynced_->did_truncate(fd, size);
  return result;
}

int FaultSyscalls::lock(int fd) const {
  std::lock_guard lock(mutex_);
  if (int error = count(CallKind::lock)) return error;
  return real_.lock(fd);
}

int64_t FaultSyscalls::copy_file_range(int from, int64_t from_offset, int to, int64_t to_offset,
                                       int64_t size) const {
  std::lock_guard lock(mutex_);
  if (int error = count(CallKind::copy_file_range)) return error;
  int64_t part = transfer_size(static_cast<size_t>(size));
  if (part < 0) return part;
  unsynced_->will_write(to);
  int64_t copied = real_.copy_file_range(from, from_offset, to, to_offset, part);
  if (copied > 0) unsynced_->did_write(to, to_offset, copied);
  return copied;
}

int FaultSyscalls::fallocate(int fd, int64_t size) const {
  std::lock_guard lock(mutex_);
  if (int error = count(CallKind::fallocate)) return error;
  unsynced_->will_write(fd);
  return real_.fallocate(fd, size);
}

int FaultSyscalls::start_writeback(int fd, int64_t offset, int64_t size) const {
  std::lock_guard lock(mutex_);
  if (int error = count(CallKind::start_writeback)) return error;
  return real_.start_writeback(fd, offset, size);
}

int FaultSyscalls::advise(int fd, int64_t offset, int64_t size, int advice) const {
  std::lock_guard lock(mutex_);
  if (int error = count(CallKind::advise)) return error;
  return real_.advise(fd, offset, size, advice);
}

StatResult FaultSyscalls::stat(const std::string& path) const {
  std::lock_guard lock(mutex_);
  if (int error = count(CallKind::stat)) return {.error = error, .status = {}};
  return real_.stat(path);
}

StatResult FaultSyscalls::lstat(const std::string& path) const {
  std::lock_guard lock(mutex_);
  if (int error = count(CallKind::lstat)) return {.error = error, .status = {}};
  return real_.lstat(path);
}

StatResult FaultSyscalls::fstat(int fd) const {
  std::lock_guard lock(mutex_);
  if (int error = count(CallKind::fstat)) return {.error = error, .status = {}};
  return real_.fstat(fd);
}

LinkResult FaultSyscalls::readlink(const std::string& path) const {
  std::lock_guard lock(mutex_);
  if (int error = count(CallKind::readlink)) return {.error = error, .target = {}};
  return real_.readlink(path);
}

int FaultSyscalls::access(const std::string& path, int mode) const {
  std::lock_guard lock(mutex_);
  if (int error = count(CallKind::access)) return error;
  return real_.access(path, mode);
}

ListResult FaultSyscalls::list(const std::string& path) const {
  std::lock_guard lock(mutex_);
  if (int error = count(CallKind::list)) return {.error = error, .names = {}};
  return real_.list(path);
}

int FaultSyscalls::mkdir(const std::string& path) const {
  std::lock_guard lock(mutex_);
  if (int error = count(CallKind::mkdir)) return error;
  int result = real_.mkdir(path);
  if (result == 0) unsynced_->did_create(path);
  return result;
}

int FaultSyscalls::rmdir(const std::string& path) const {
  std::lock_guard lock(mutex_);
  if (int error = count(CallKind::rmdir)) return error;
  KeptEntry old = UnsyncedState::keep(path);
  int result = real_.rmdir(path);
  if (result == 0) unsynced_->did_remove(path, std::move(old));
  return result;
}

int FaultSyscalls::unlink(const std::string& path) const {
  std::lock_guard lock(mutex_);
  if (int error = count(CallKind::unlink)) return error;
  KeptEntry old = UnsyncedState::keep(path);
  int result = real_.unlink(path);
  if (result == 0) unsynced_->did_remove(path, std::move(old));
  return result;
}

int FaultSyscalls::link(const std::string& from, const std::string& to) const {
  std::lock_guard lock(mutex_);
  if (int error = count(CallKind::link)) return error;
  int result = real_.link(from, to);
  if (result == 0) unsynced_->did_create(to);
  return result;
}

int FaultSyscalls::link_followed(const std::string& from, const std::string& to) const {
  std::lock_guard lock(mutex_);
  if (int error = count(CallKind::link_followed)) return error;
  int result = real_.link_followed(from, to);
  if (result == 0) unsynced_->did_create(to);
  return result;
}

int FaultSyscalls::rename(const std::string& from, const std::string& to) const {
  std::lock_guard lock(mutex_);
  if (int error = count(CallKind::rename)) return error;
  KeptEntry old = UnsyncedState::keep(to);
  int result = real_.rename(from, to);
  if (result == 0) unsynced_->did_rename(from, to, std::move(old));
  return result;
}

int FaultSyscalls::rename_new(const std::string& from, const std::string& to) const {
  std::lock_guard lock(mutex_);
  if (int error = count(CallKind::rename_new)) return error;
  int result = real_.rename_new(from, to);
  if (result == 0) unsynced_->did_rename(from, to, {});
  return result;
}

int FaultSyscalls::exchange(const std::string& a, const std::string& b) const {
  std::lock_guard lock(mutex_);
  if (int error = count(CallKind::exchange)) return error;
  int result = real_.exchange(a, b);
  if (result == 0) unsynced_->did_exchange(a, b);
  return result;
}

int64_t FaultSyscalls::free_bytes(const std::string& path) const {
  std::lock_guard lock(mutex_);
  if (int error = count(CallKind::free_bytes)) return error;
  return real_.free_bytes(path);
}

int64_t FaultSyscalls::filesystem_type(const std::string& path) const {
  std::lock_guard lock(mutex_);
  if (int error = count(CallKind::filesystem_type)) return error;
  return real_.filesystem_type(path);
}

}  // namespace weightloom
