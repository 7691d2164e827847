// What stands beside groups of values: scales and zeros, in F32.
#pragma once

#include <cstdint>

#include "weightloom/codec/block_codec_internal.h"

namespace weightloom {

/// The group along a dim that a place belongs to.
inline int64_t group_of(int64_t place, int64_t block) noexcept {
  return block == kEntireDim ? 0 : place / block;
}

/// Groups of columns taken at a time are no more than this.
inline constexpr int64_t kMostGroups = 2048;

/// Scales and zeros of a codec's groups. Borrows what it is made of.
class GroupTerms {
 public:
  /// Of operands that lie beside a box.
  GroupTerms(const BlockCodec& codec, const BoundOperands& operands) noexcept
      : codec_(codec), operands_(operands) {}

  /// The group of rows that a row belongs to. All indexes that there is nothing for are one group,
  /// codec.groups.
  int64_t row_group(int64_t row) const noexcept;
  /// Of a group of rows: the scales of `count` groups of columns from the first on.
  void take_scales(int64_t group, int64_t first, int64_t count, float* out) const noexcept;
  /// Likewise what is to be subtracted from codes as they are stored.
  void take_zeros(int64_t group, int64_t first, int64_t count, float* out) const noexcept;

 private:
  bool is_missing(int64_t group) const noexcept;
  void take_fields(int64_t group, int64_t first, int64_t count, float* out) const noexcept;

  const BlockCodec& codec_;
  const BoundOperands& operands_;
};

}  // namespace weightloom
