#include "weightloom/base/memory_files.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <deque>
#include <map>
#include <set>
#include <string_view>
#include <utility>

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include "weightloom/base/error.h"
#include "weightloom/base/file.h"
#include "weightloom/base/forwarding_syscalls.h"

namespace weightloom {
namespace {

// No descriptor of the system is as large, and no device of it has this number.
constexpr int kFirstDescriptor = 1 << 30;
constexpr int kDescriptorsOfOne = 1 << 20;
constexpr uint64_t kDevice = ~uint64_t{0};
constexpr int64_t kTmpfs = 0x01021994;

/// A file's bytes: parts with the offsets that they begin at.
class Bytes {
 public:
  explicit Bytes(const std::vector<FilePart>& parts) {
    for (const FilePart& part : parts) {
      parts_.push_back({part.bytes, size_});
      size_ += std::ssize(part.bytes) + part.hole_bytes;
    }
  }

  int64_t size() const noexcept { return size_; }

  /// Copies what there is from `offset` on; how many bytes.
  int64_t read(std::span<std::byte> buffer, int64_t offset) const {
    const auto wanted = std::min(std::ssize(buffer), size_ - offset);
    if (wanted <= 0) return 0;
    auto part = std::ranges::upper_bound(parts_, offset, {}, &Placed::begin) - 1;
    for (int64_t done = 0; done < wanted; ++part) {
      const int64_t end = std::next(part) == parts_.end() ? size_ : std::next(part)->begin;
      const int64_t count = std::min(end - offset - done, wanted - done);
      if (count > 0) part->copy(offset + done, buffer.data() + done, static_cast<size_t>(count));
      done += count;
    }
    return wanted;
  }

 private:
  struct Placed {
    std::span<const std::byte> bytes;  // none: a hole
    int64_t begin = 0;

    void copy(int64_t from, std::byte* to, size_t count) const {
      if (bytes.empty()) {
        std::memset(to, 0, count);
      } else {
        std::memcpy(to, bytes.data() + (from - begin), count);
      }
    }
  };

  std::vector<Placed> parts_;
  int64_t size_ = 0;
};

}  // namespace

class MemoryFiles::Seam final : public ForwardingSyscalls {
 public:
  /// Where `others` are files in memory too, it takes the next range of descriptors.
  explicit Seam(const Syscalls& others) : ForwardingSyscalls(others) {
    while (others.fstat(first_).error == 0) first_ += kDescriptorsOfOne;
  }

  void add(const std::string& path, const std::vector<FilePart>& parts) {
    if (!places_.emplace(path, files_.size()).second) {
      throw Error(ErrorCode::usage, fmt::format("{}: two files in memory have this path", path));
    }
    files_.emplace_back(parts);
    note_folders(path);
  }

  std::span<const std::byte> keep(std::string text) {
    texts_.push_back(std::move(text));
    return std::as_bytes(std::span(texts_.back()));
  }

  int open(const std::string& path, int flags, uint32_t mode) const override {
    const auto found = places_.find(path);
    if (found == places_.end()) return ForwardingSyscalls::open(path, flags, mode);
    if ((flags & O_ACCMODE) != O_RDONLY) return -EROFS;
    return first_ + static_cast<int>(found->second);
  }
  int close(int fd) const override { return is_ours(fd) ? 0 : ForwardingSyscalls::close(fd); }
  int64_t pread(int fd, std::span<std::byte> buffer, int64_t offset) const override {
    if (!is_ours(fd)) return ForwardingSyscalls::pread(fd, buffer, offset);
    return file(fd).read(buffer, offset);
  }
  int64_t preadv(int fd, std::span<const std::span<std::byte>> buffers,
                 int64_t offset) const override {
    if (!is_ours(fd)) return ForwardingSyscalls::preadv(fd, buffers, offset);
    int64_t done = 0;
    for (const std::span<std::byte> buffer : buffers) {
      const int64_t count = file(fd).read(buffer, offset + done);
      done += count;
      if (count < static_cast<int64_t>(buffer.size())) break;
    }
    return done;
  }
  int64_t pwrite(int fd, std::span<const std::byte> buffer, int64_t offset) const override {
    return is_ours(fd) ? -EBADF : ForwardingSyscalls::pwrite(fd, buffer, offset);
  }
  int fsync(int fd) const override { return is_ours(fd) ? 0 : ForwardingSyscalls::fsync(fd); }
  int fdatasync(int fd) const override {
    return is_ours(fd) ? 0 : ForwardingSyscalls::fdatasync(fd);
  }
  int ftruncate(int fd, int64_t size) const override {
    return is_ours(fd) ? -EBADF : ForwardingSyscalls::ftruncate(fd, size);
  }
  int lock(int fd) const override { return is_ours(fd) ? 0 : ForwardingSyscalls::lock(fd); }
  int64_t copy_file_range(int from, int64_t from_offset, int to, int64_t to_offset,
                          int64_t size) const override {
    if (is_ours(from) || is_ours(to)) return -EXDEV;
    return ForwardingSyscalls::copy_file_range(from, from_offset, to, to_offset, size);
  }
  int fallocate(int fd, int64_t size) const override {
    return is_ours(fd) ? -EBADF : ForwardingSyscalls::fallocate(fd, size);
  }
  int start_writeback(int fd, int64_t offset, int64_t size) const override {
    return is_ours(fd) ? 0 : ForwardingSyscalls::start_writeback(fd, offset, size);
  }
  int advise(int fd, int64_t offset, int64_t size, int advice) const override {
    return is_ours(fd) ? 0 : ForwardingSyscalls::advise(fd, offset, size, advice);
  }

  StatResult stat(const std::string& path) const override {
    const auto found = places_.find(path);
    if (found != places_.end()) return {0, status_of_file(found->second)};
    const StatResult real = ForwardingSyscalls::stat(path);
    const auto folder = folders_.find(path);
    if (real.error == 0 || folder == folders_.end()) return real;
    return {0, status_of_folder(path)};
  }
  StatResult lstat(const std::string& path) const override {
    if (places_.contains(path)) return stat(path);
    const StatResult real = ForwardingSyscalls::lstat(path);
    return real.error != 0 && folders_.contains(path) ? stat(path) : real;
  }
  StatResult fstat(int fd) const override {
    if (!is_ours(fd)) return ForwardingSyscalls::fstat(fd);
    return {0, status_of_file(static_cast<size_t>(fd - first_))};
  }
  LinkResult readlink(const std::string& path) const override {
    return is_here(path) ? LinkResult{-EINVAL, ""} : ForwardingSyscalls::readlink(path);
  }
  int access(const std::string& path, int mode) const override {
    if (!is_here(path)) return ForwardingSyscalls::access(path, mode);
    return (mode & W_OK) != 0 ? -EROFS : 0;
  }
  ListResult list(const std::string& path) const override {
    ListResult result = ForwardingSyscalls::list(path);
    const auto folder = folders_.find(path);
    if (folder == folders_.end()) return result;
    std::set<std::string> names(result.names.begin(), result.names.end());
    names.insert(folder->second.begin(), folder->second.end());
    return {0, {names.begin(), names.end()}};
  }
  int unlink(const std::string& path) const override {
    return places_.contains(path) ? -EROFS : ForwardingSyscalls::unlink(path);
  }
  int link(const std::string& from, const std::string& to) const override {
    return places_.contains(from) ? -EXDEV : ForwardingSyscalls::link(from, to);
  }
  int link_followed(const std::string& from, const std::string& to) const override {
    return places_.contains(from) ? -EXDEV : ForwardingSyscalls::link_followed(from, to);
  }
  int rename(const std::string& from, const std::string& to) const override {
    return is_either(from, to) ? -EXDEV : ForwardingSyscalls::rename(from, to);
  }
  int rename_new(const std::string& from, const std::string& to) const override {
    return is_either(from, to) ? -EXDEV : ForwardingSyscalls::rename_new(from, to);
  }
  int exchange(const std::string& a, const std::string& b) const override {
    return is_either(a, b) ? -EXDEV : ForwardingSyscalls::exchange(a, b);
  }
  int64_t free_bytes(const std::string& path) const override {
    return is_here(path) ? 0 : ForwardingSyscalls::free_bytes(path);
  }
  int64_t filesystem_type(const std::string& path) const override {
    return is_here(path) ? kTmpfs : ForwardingSyscalls::filesystem_type(path);
  }

 private:
  /// Each folder above `path` holds the next one, or the file itself.
  void note_folders(std::string path) {
    while (true) {
      const std::string folder = parent_path(path);
      if (folder == path || !folders_[folder].insert(base_name(path)).second) return;
      path = folder;
    }
  }

  bool is_ours(int fd) const noexcept {
    return fd >= first_ && fd < first_ + static_cast<int>(files_.size());
  }
  const Bytes& file(int fd) const { return files_[static_cast<size_t>(fd - first_)]; }
  /// A file of ours, or a folder that is nowhere else.
  bool is_here(const std::string& path) const {
    if (places_.contains(path)) return true;
    return folders_.contains(path) && ForwardingSyscalls::stat(path).error != 0;
  }
  bool is_either(const std::string& a, const std::string& b) const {
    return places_.contains(a) || places_.contains(b);
  }
  FileStatus status_of_file(size_t place) const {
    return {FileKind::file, files_[place].size(), kDevice, place + 1, 0, 0444};
  }
  FileStatus status_of_folder(const std::string& path) const {
    const auto place = std::distance(folders_.begin(), folders_.find(path));
    return {FileKind::folder, 0, kDevice, ~static_cast<uint64_t>(place), 0, 0555};
  }

  int first_ = kFirstDescriptor;
  std::map<std::string, size_t> places_;  // path → file
  std::deque<Bytes> files_;
  std::deque<std::string> texts_;
  std::map<std::string, std::set<std::string>> folders_;  // path → names in it
};

MemoryFiles::MemoryFiles(const Syscalls& others) : seam_(std::make_unique<Seam>(others)) {}
MemoryFiles::MemoryFiles(MemoryFiles&&) noexcept = default;
MemoryFiles& MemoryFiles::operator=(MemoryFiles&&) noexcept = default;
MemoryFiles::~MemoryFiles() = default;

void MemoryFiles::add(const std::string& path,
                      const std::vector<std::span<const std::byte>>& parts) {
  std::vector<FilePart> all;
  for (const auto& bytes : parts) all.push_back({bytes});
  seam_->add(path, all);
}

void MemoryFiles::add_with_holes(const std::string& path, const std::vector<FilePart>& parts) {
  seam_->add(path, parts);
}

void MemoryFiles::add_text(const std::string& path, std::string text) {
  seam_->add(path, {FilePart{seam_->keep(std::move(text))}});
}

std::span<const std::byte> MemoryFiles::keep(std::string text) {
  return seam_->keep(std::move(text));
}

const Syscalls& MemoryFiles::calls() const noexcept { return *seam_; }

}  // namespace weightloom
