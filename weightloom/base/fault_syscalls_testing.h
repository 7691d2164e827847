// A file seam that fails on demand, for the tests of all rooms: it fails a chosen call, shortens
// transfers, and crashes at a chosen call and then loses what was not made durable.
//
// Thread safety: all calls may run concurrently; set the faults up before the threads start.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "weightloom/base/syscalls.h"

namespace weightloom {

enum class CallKind {
  open,
  close,
  pread,
  preadv,
  pwrite,
  fsync,
  fdatasync,
  ftruncate,
  lock,
  copy_file_range,
  fallocate,
  start_writeback,
  advise,
  stat,
  lstat,
  fstat,
  readlink,
  access,
  list,
  mkdir,
  rmdir,
  unlink,
  link,
  link_followed,
  rename,
  rename_new,
  exchange,
  free_bytes,
  filesystem_type,
};

inline constexpr size_t kCallKindCount = 29;

class UnsyncedState;

class FaultSyscalls final : public Syscalls {
 public:
  explicit FaultSyscalls(const Syscalls& real = system_calls());
  ~FaultSyscalls() override;
  FaultSyscalls(const FaultSyscalls&) = delete;
  FaultSyscalls& operator=(const FaultSyscalls&) = delete;

  /// Fails call `number` (from 0, of any kind) with `error`, an errno. Calls before count too.
  void fail_call(int64_t number, int error);
  /// Fails call `number` (from 0) of one kind.
  void fail_call(CallKind kind, int64_t number, int error);
  /// Fails every call of one kind from now on; error 0 ends it.
  void fail_every(CallKind kind, int error);
  /// From now on each transfer moves 1 to `max_bytes` bytes, and one in four is interrupted
  /// (EINTR).
  void shorten_transfers(int64_t max_bytes, uint64_t seed);
  /// Call `number` (from 0, of any kind) and all after it fail with EIO and do nothing, as if the
  /// machine had stopped there.
  void crash_at(int64_t number);
  bool crashed() const;
  /// What a power cut does, then calls work again: bytes written since the last sync of their file
  /// become zeros, a file that grew since then shrinks back, and names created, removed, renamed or
  /// exchanged in a folder that was not synced afterwards are undone.
  void lose_unsynced_data();

  int64_t calls() const;
  int64_t calls(CallKind kind) const;

  int open(const std::string& path, int flags, uint32_t mode) const override;
  int close(int fd) const override;
  int64_t pread(int fd, std::span<std::byte> buffer, int64_t offset) const override;
  int64_t preadv(int fd, std::span<const std::span<std::byte>> buffers,
                 int64_t offset) const override;
  int64_t pwrite(int fd, std::span<const std::byte> buffer, int64_t offset) const override;
  int fsync(int fd) const override;
  int fdatasync(int fd) const override;
  int ftruncate(int fd, int64_t size) const override;
  int lock(int fd) const override;
  int64_t copy_file_range(int from, int64_t from_offset, int to, int64_t to_offset,
                          int64_t size) const override;
  int fallocate(int fd, int64_t size) const override;
  int start_writeback(int fd, int64_t offset, int64_t size) const override;
  int advise(int fd, int64_t offset, int64_t size, int advice) const override;
  StatResult stat(const std::string& path) const override;
  StatResult lstat(const std::string& path) const override;
  StatResult fstat(int fd) const override;
  LinkResult readlink(const std::string& path) const override;
  int access(const std::string& path, int mode) const override;
  ListResult list(const std::string& path) const override;
  int mkdir(const std::string& path) const override;
  int rmdir(const std::string& path) const override;
  int unlink(const std::string& path) const override;
  int link(const std::string& from, const std::string& to) const override;
  int link_followed(const std::string& from, const std::string& to) const override;
  int rename(const std::string& from, const std::string& to) const override;
  int rename_new(const std::string& from, const std::string& to) const override;
  int exchange(const std::string& a, const std::string& b) const override;
  int64_t free_bytes(const std::string& path) const override;
  int64_t filesystem_type(const std::string& path) const override;

 private:
  /// Counts a call; the -errno to fail it with, or 0.
  int count(CallKind kind) const;
  /// How many of `wanted` bytes to move, or -EINTR. Takes the lock.
  int64_t transfer_size(size_t wanted) const;

  struct PlannedFault {
    std::optional<CallKind> kind;  // nothing: any
    int64_t number;
    int error;
  };

  const Syscalls& real_;
  // Held during every call that changes something, so that the record and the disk agree.
  mutable std::mutex mutex_;
  mutable int64_t total_ = 0;
  mutable std::vector<int64_t> counts_ = std::vector<int64_t>(kCallKindCount);
  mutable bool crashed_ = false;
  mutable std::mt19937_64 random_;
  int64_t max_transfer_bytes_ = 0;  // 0: whatever the caller asks
  std::optional<int64_t> crash_number_;
  std::vector<PlannedFault> planned_;
  std::map<CallKind, int> always_;
  std::unique_ptr<UnsyncedState> unsynced_;
};

}  // namespace weightloom
