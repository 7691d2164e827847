// A file seam that passes every call on to another. Derive from it to answer some calls otherwise.
// Thread safety: as the other one's. Borrows it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "weightloom/base/export.h"
#include "weightloom/base/syscalls.h"

namespace weightloom WEIGHTLOOM_EXPORT {

/// Passes every call on to another Syscalls; see the top of this file.
class ForwardingSyscalls : public Syscalls {
 public:
  /// `real` must outlive this object.
  explicit ForwardingSyscalls(const Syscalls& real = system_calls()) : real_(real) {}

  int open(const std::string& path, int flags, uint32_t mode) const override {
    return real_.open(path, flags, mode);
  }
  int close(int fd) const override { return real_.close(fd); }
  int64_t pread(int fd, std::span<std::byte> buffer, int64_t offset) const override {
    return real_.pread(fd, buffer, offset);
  }
  int64_t preadv(int fd, std::span<const std::span<std::byte>> buffers,
                 int64_t offset) const override {
    return real_.preadv(fd, buffers, offset);
  }
  int64_t pwrite(int fd, std::span<const std::byte> buffer, int64_t offset) const override {
    return real_.pwrite(fd, buffer, offset);
  }
  int fsync(int fd) const override { return real_.fsync(fd); }
  int fdatasync(int fd) const override { return real_.fdatasync(fd); }
  int ftruncate(int fd, int64_t size) const override { return real_.ftruncate(fd, size); }
  int lock(int fd) const override { return real_.lock(fd); }
  int64_t copy_file_range(int from, int64_t from_offset, int to, int64_t to_offset,
                          int64_t size) const override {
    return real_.copy_file_range(from, from_offset, to, to_offset, size);
  }
  int fallocate(int fd, int64_t size) const override { return real_.fallocate(fd, size); }
  int start_writeback(int fd, int64_t offset, int64_t size) const override {
    return real_.start_writeback(fd, offset, size);
  }
  int advise(int fd, int64_t offset, int64_t size, int advice) const override {
    return real_.advise(fd, offset, size, advice);
  }
  StatResult stat(const std::string& path) const override { return real_.stat(path); }
  StatResult lstat(const std::string& path) const override { return real_.lstat(path); }
  StatResult fstat(int fd) const override { return real_.fstat(fd); }
  LinkResult readlink(const std::string& path) const override { return real_.readlink(path); }
  int access(const std::string& path, int mode) const override { return real_.access(path, mode); }
  ListResult list(const std::string& path) const override { return real_.list(path); }
  int mkdir(const std::string& path) const override { return real_.mkdir(path); }
  int rmdir(const std::string& path) const override { return real_.rmdir(path); }
  int unlink(const std::string& path) const override { return real_.unlink(path); }
  int link(const std::string& from, const std::string& to) const override {
    return real_.link(from, to);
  }
  int link_followed(const std::string& from, const std::string& to) const override {
    return real_.link_followed(from, to);
  }
  int rename(const std::string& from, const std::string& to) const override {
    return real_.rename(from, to);
  }
  int rename_new(const std::string& from, const std::string& to) const override {
    return real_.rename_new(from, to);
  }
  int exchange(const std::string& a, const std::string& b) const override {
    return real_.exchange(a, b);
  }
  int64_t free_bytes(const std::string& path) const override { return real_.free_bytes(path); }
  int64_t filesystem_type(const std::string& path) const override {
    return real_.filesystem_type(path);
  }

 private:
  const Syscalls& real_;
};

}  // namespace weightloom
