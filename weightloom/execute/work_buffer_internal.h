// A worker's memory for one piece of work after another.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <new>
#include <span>

namespace weightloom {

/// Memory that is kept from one use to the next, grown when more is needed, never cleared. Begins
/// on a page, so that files can be written from it past the page cache.
class WorkBuffer {
 public:
  /// As many bytes; what take() gave before is no more.
  std::span<std::byte> take(size_t size) {
    if (size > size_) {
      data_.reset();
      size_ = 0;
      data_.reset(static_cast<std::byte*>(::operator new[](size, kPage)));
      size_ = size;
    }
    return {data_.get(), size};
  }
  /// Of all that is held.
  int64_t size_bytes() const noexcept { return static_cast<int64_t>(size_); }

  /// How far a place of a file lies behind the start of its page.
  static size_t phase_of(int64_t file_offset) noexcept {
    return static_cast<size_t>(file_offset) % static_cast<size_t>(kPage);
  }

 private:
  static constexpr std::align_val_t kPage{4096};

  struct FreePages {
    void operator()(std::byte* data) const noexcept { ::operator delete[](data, kPage); }
  };

  std::unique_ptr<std::byte[], FreePages> data_;
  size_t size_ = 0;
};

}  // namespace weightloom
