#include "weightloom/execute/arena.h"

#include <utility>

#include <fmt/format.h>
#include <sys/mman.h>

#include "weightloom/base/byte_size.h"
#include "weightloom/base/checked.h"
#include "weightloom/base/error.h"

namespace weightloom {
namespace {

constexpr int64_t kHugePageBytes = int64_t{2} << 20;

/// Maps `size` bytes aligned to a huge page by mapping more and trimming both ends.
void* map_aligned(size_t size) {
  const size_t slack = static_cast<size_t>(kHugePageBytes);
  void* raw = mmap(nullptr, size + slack, PROT_READ | PROT_WRITE,
                   MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (raw == MAP_FAILED) return nullptr;
  auto* begin = static_cast<std::byte*>(raw);
  const size_t misfit = reinterpret_cast<uintptr_t>(begin) % slack;
  const size_t head = misfit == 0 ? 0 : slack - misfit;
  if (head > 0) munmap(begin, head);
  if (slack - head > 0) munmap(begin + head + size, slack - head);
  return begin + head;
}

}  // namespace

Arena::Arena(int64_t size_bytes) : size_(static_cast<size_t>(size_bytes)) {
  if (size_bytes == 0) return;
  mapped_ = static_cast<size_t>(round_up(size_bytes, kHugePageBytes));
  data_ = static_cast<std::byte*>(map_aligned(mapped_));
  if (data_ == nullptr) {
    throw Error(ErrorCode::no_space,
                fmt::format("the system refused {} of memory", format_byte_size(size_bytes)),
                "free memory, or take part of the tensors with --include");
  }
  madvise(data_, mapped_, MADV_HUGEPAGE);  // a hint: small pages serve too, slower
}

Arena::Arena(Arena&& other) noexcept
    : data_(std::exchange(other.data_, nullptr)),
      size_(std::exchange(other.size_, 0)),
      mapped_(std::exchange(other.mapped_, 0)) {}

Arena& Arena::operator=(Arena&& other) noexcept {
  if (this != &other) {
    release();
    data_ = std::exchange(other.data_, nullptr);
    size_ = std::exchange(other.size_, 0);
    mapped_ = std::exchange(other.mapped_, 0);
  }
  return *this;
}

Arena::~Arena() { release(); }

void Arena::release() noexcept {
  if (data_ != nullptr) munmap(data_, mapped_);
}

}  // namespace weightloom
