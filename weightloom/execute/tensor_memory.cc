#include <new>
#include <utility>

#include "weightloom/execute/arena.h"
#include "weightloom/execute/stream.h"

namespace weightloom {
namespace {

// From here on pages of the system's own, huge ones, are worth mapping.
constexpr int64_t kLargeBytes = int64_t{2} << 20;
constexpr std::align_val_t kAlignment{64};

struct FreeAligned {
  void operator()(std::byte* data) const noexcept { ::operator delete[](data, kAlignment); }
};

}  // namespace

struct TensorMemory::Holder {
  Arena large;
  std::unique_ptr<std::byte[], FreeAligned> small;
  std::span<std::byte> bytes;
};

TensorMemory::TensorMemory() = default;

TensorMemory::TensorMemory(int64_t size_bytes) : holder_(std::make_unique<Holder>()) {
  const auto size = static_cast<size_t>(size_bytes);
  if (size_bytes >= kLargeBytes) {
    holder_->large = Arena(size_bytes);
    holder_->bytes = holder_->large.bytes();
  } else {
    holder_->small.reset(static_cast<std::byte*>(::operator new[](size, kAlignment)));
    holder_->bytes = {holder_->small.get(), size};
  }
}

TensorMemory::TensorMemory(TensorMemory&&) noexcept = default;
TensorMemory& TensorMemory::operator=(TensorMemory&&) noexcept = default;
TensorMemory::~TensorMemory() = default;

std::span<std::byte> TensorMemory::bytes() const noexcept {
  return holder_ ? holder_->bytes : std::span<std::byte>();
}

}  // namespace weightloom
