#include <new>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <xxhash.h>

#include "weightloom/execute/tensor_hash_internal.h"

namespace weightloom {

struct TensorHash::State {
  State() : hash(XXH3_createState()) {
    if (hash == nullptr) throw std::bad_alloc();
    XXH3_128bits_reset(hash);
  }
  State(const State&) = delete;
  State& operator=(const State&) = delete;
  ~State() { XXH3_freeState(hash); }

  XXH3_state_t* hash;
};

TensorHash::TensorHash() : state_(std::make_unique<State>()) {}
TensorHash::TensorHash(TensorHash&&) noexcept = default;
TensorHash& TensorHash::operator=(TensorHash&&) noexcept = default;
TensorHash::~TensorHash() = default;

void TensorHash::add(std::span<const std::byte> bytes) noexcept {
  XXH3_128bits_update(state_->hash, bytes.data(), bytes.size());
}

std::string TensorHash::digest() const {
  XXH128_canonical_t canonical;
  XXH128_canonicalFromHash(&canonical, XXH3_128bits_digest(state_->hash));
  return fmt::format("{:02x}", fmt::join(canonical.digest, ""));
}

}  // namespace weightloom
