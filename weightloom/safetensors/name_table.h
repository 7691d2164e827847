// A hash table from names to positions in a list that its owner keeps.
//
// It holds no names, so copies of the owner stay valid; every call takes `name_at(position)`, which
// gives the name at a position.
// Thread safety: find may run concurrently.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "weightloom/base/export.h"

namespace weightloom WEIGHTLOOM_EXPORT {

/// Names to positions; see the top of this file.
class NameTable {
 public:
  NameTable() = default;
  /// Room for `count` names.
  explicit NameTable(size_t count)
      : seed_(random_seed()), slots_(std::bit_ceil(count + count / 2 + 1)) {}

  /// Adds `name`, which stands at `position`. Returns the position of an equal name that is there
  /// already, and then adds nothing.
  template <class NameAt>
  std::optional<int32_t> insert(std::string_view name, int32_t position, NameAt name_at) {
    uint64_t hash = hash_of(name, seed_);
    Slot& slot = slots_[slot_of(name, hash, name_at)];
    if (slot.position != kFree) return slot.position;
    slot = {static_cast<uint32_t>(hash >> 32), position};
    return std::nullopt;
  }

  /// The position of `name`; nothing if it was not added.
  template <class NameAt>
  std::optional<int32_t> find(std::string_view name, NameAt name_at) const {
    if (slots_.empty()) return std::nullopt;
    const Slot& slot = slots_[slot_of(name, hash_of(name, seed_), name_at)];
    if (slot.position == kFree) return std::nullopt;
    return slot.position;
  }

 private:
  static constexpr int32_t kFree = -1;

  struct Slot {
    uint32_t hash = 0;  // its upper half, to compare few names
    int32_t position = kFree;
  };

  static uint64_t hash_of(std::string_view name, uint64_t seed) noexcept;
  /// Names come from untrusted files: with a seed nobody knows, none can be made to collide. One
  /// seed for the process: asking the system for each table would cost more than small tables do.
  static uint64_t random_seed();

  /// The slot that holds `name`, else the free one where it belongs.
  template <class NameAt>
  size_t slot_of(std::string_view name, uint64_t hash, NameAt name_at) const {
    size_t mask = slots_.size() - 1;
    size_t at = hash & mask;
    while (slots_[at].position != kFree && !(slots_[at].hash == static_cast<uint32_t>(hash >> 32) &&
                                             name_at(slots_[at].position) == name)) {
      at = (at + 1) & mask;
    }
    return at;
  }

  uint64_t seed_ = 0;
  std::vector<Slot> slots_;
};

}  // namespace weightloom
