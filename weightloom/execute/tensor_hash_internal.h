// The digest of a tensor's bytes: XXH3, 128 bits, as `xxhsum -H2` prints it.
// Source: Yann Collet, xxHash; doc/xxhash_spec.md of its repository.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>

namespace weightloom {

/// Takes bytes in order, in pieces of any size.
/// Thread safety: none.
class TensorHash {
 public:
  TensorHash();
  TensorHash(TensorHash&&) noexcept;
  TensorHash& operator=(TensorHash&&) noexcept;
  ~TensorHash();

  void add(std::span<const std::byte> bytes) noexcept;
  /// Of all bytes so far: 32 hexadecimal digits, the most significant byte first.
  std::string digest() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace weightloom
