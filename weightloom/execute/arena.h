// One anonymous mapping for results, on transparent huge pages where the system has them: page
// faults, not copying, are what loaders pay for.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "weightloom/base/export.h"

namespace weightloom WEIGHTLOOM_EXPORT {

/// Owns its memory; movable. Zero-filled, aligned to 2 MiB, freed when destroyed.
class Arena {
 public:
  Arena() = default;
  /// Errors: no_space if the system has not that much address space.
  explicit Arena(int64_t size_bytes);
  Arena(Arena&& other) noexcept;             ///< Leaves the other one empty.
  Arena& operator=(Arena&& other) noexcept;  ///< Frees what it held.
  ~Arena();

  /// All of it; lives as long as the arena.
  std::span<std::byte> bytes() const noexcept { return {data_, size_}; }

 private:
  void release() noexcept;

  std::byte* data_ = nullptr;
  size_t size_ = 0;
  size_t mapped_ = 0;  // size_ rounded up to whole huge pages
};

}  // namespace weightloom
