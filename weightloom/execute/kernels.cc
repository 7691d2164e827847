#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>
#include <span>

#include "weightloom/codec/cast.h"
#include "weightloom/execute/kernels_internal.h"

namespace weightloom {
namespace {

// A square of this many elements a side stays in the first-level cache on both sides.
constexpr int64_t kBlock = 32;

/// The loops of a copy: what is moved at once, and the axes around it.
struct Loops {
  int64_t run_bytes = 1;
  std::span<const Axis> outer;  // by target stride, outermost first
};

Loops loops_of(const Region& region) noexcept {
  std::span<const Axis> axes = region.axes;
  if (!axes.empty() && axes.back().target_stride == 1 && axes.back().source_stride == 1) {
    return {axes.back().extent, axes.first(axes.size() - 1)};
  }
  return {1, axes};
}

template <int64_t kWidth>
struct FixedCopy {
  static void one(const std::byte* from, std::byte* to, int64_t) noexcept {
    std::memcpy(to, from, kWidth);
  }
};

struct AnyCopy {
  static void one(const std::byte* from, std::byte* to, int64_t size) noexcept {
    std::memcpy(to, from, static_cast<size_t>(size));
  }
};

/// One axis of elements.
template <typename Copy>
void copy_line(const Axis& axis, int64_t size, const std::byte* from, std::byte* to) noexcept {
  for (int64_t i = 0; i < axis.extent; ++i) {
    Copy::one(from + i * axis.source_stride, to + i * axis.target_stride, size);
  }
}

/// Two axes whose order differs between the sides, in squares.
template <typename Copy>
void copy_plane(const Axis& a, const Axis& b, int64_t size, const std::byte* from,
                std::byte* to) noexcept {
  for (int64_t i0 = 0; i0 < a.extent; i0 += kBlock) {
    const Axis ai{std::min(kBlock, a.extent - i0), a.target_stride, a.source_stride};
    for (int64_t j0 = 0; j0 < b.extent; j0 += kBlock) {
      const int64_t j1 = std::min(j0 + kBlock, b.extent);
      for (int64_t j = j0; j < j1; ++j) {
        copy_line<Copy>(ai, size, from + i0 * a.source_stride + j * b.source_stride,
                        to + i0 * a.target_stride + j * b.target_stride);
      }
    }
  }
}

/// The axis that steps least on the source side, if it is not the last one: the partner of a
/// transpose.
int64_t transpose_partner(std::span<const Axis> axes) noexcept {
  int64_t best = static_cast<int64_t>(axes.size()) - 1;
  for (int64_t i = best; i-- > 0;) {
    if (axes[static_cast<size_t>(i)].source_stride <
        axes[static_cast<size_t>(best)].source_stride) {
      best = i;
    }
  }
  return best;
}

template <typename Copy>
class StridedCopy {
 public:
  explicit StridedCopy(const Loops& loops) noexcept
      : loops_(loops), last_(static_cast<int64_t>(loops.outer.size()) - 1) {
    partner_ = last_ > 0 ? transpose_partner(loops.outer) : last_;
  }

  void run(const std::byte* from, std::byte* to) const noexcept { descend(0, from, to); }

 private:
  const Axis& axis(int64_t i) const noexcept { return loops_.outer[static_cast<size_t>(i)]; }

  void descend(int64_t i, const std::byte* from, std::byte* to) const noexcept {
    if (i > last_) return Copy::one(from, to, loops_.run_bytes);
    if (i == last_) return copy_last(from, to);
    if (i == partner_) return descend(i + 1, from, to);  // walked together with the last axis
    for (int64_t k = 0; k < axis(i).extent; ++k) {
      descend(i + 1, from + k * axis(i).source_stride, to + k * axis(i).target_stride);
    }
  }

  void copy_last(const std::byte* from, std::byte* to) const noexcept {
    if (partner_ == last_) return copy_line<Copy>(axis(last_), loops_.run_bytes, from, to);
    copy_plane<Copy>(axis(last_), axis(partner_), loops_.run_bytes, from, to);
  }

  Loops loops_;
  int64_t last_;
  int64_t partner_ = 0;
};

void copy_loops(const Loops& loops, const std::byte* from, std::byte* to) noexcept {
  switch (loops.run_bytes) {
    case 1:
      return StridedCopy<FixedCopy<1>>(loops).run(from, to);
    case 2:
      return StridedCopy<FixedCopy<2>>(loops).run(from, to);
    case 4:
      return StridedCopy<FixedCopy<4>>(loops).run(from, to);
    case 8:
      return StridedCopy<FixedCopy<8>>(loops).run(from, to);
    case 16:
      return StridedCopy<FixedCopy<16>>(loops).run(from, to);
    case 32:
      return StridedCopy<FixedCopy<32>>(loops).run(from, to);
    case 64:
      return StridedCopy<FixedCopy<64>>(loops).run(from, to);
    default:
      return StridedCopy<AnyCopy>(loops).run(from, to);
  }
}

// A block of this many elements, on both sides of a cast, stays in the first-level cache.
constexpr int64_t kCastBlock = 2048;
// The side of a square block of a transpose.
constexpr int64_t kCastSide = 32;
// Contiguous runs of at least this many elements are cast where they lie.
constexpr int64_t kCastRun = 64;

/// A cast of a strided region, which it borrows.
class StridedCast {
 public:
  StridedCast(const Region& region, DType from, DType to) noexcept
      : axes_(region.axes),
        from_(from),
        to_(to),
        from_bytes_(bits(from) / 8),
        to_bytes_(bits(to) / 8) {}

  int64_t run(const std::byte* from, std::byte* to) noexcept {
    if (axes_.empty()) return cast(from_, to_, from, to, 1);
    const Axis& last = axes_.back();
    const bool contiguous = last.target_stride == to_bytes_ && last.source_stride == from_bytes_;
    if (contiguous && (last.extent >= kCastRun || axes_.size() == 1)) {
      return cast_runs(axes_, from, to);
    }
    choose_block();
    return cast_blocks(0, from, to);
  }

 private:
  int64_t cast_runs(std::span<const Axis> axes, const std::byte* from,
                    std::byte* to) const noexcept {
    const Axis& axis = axes.front();
    if (axes.size() == 1) return cast(from_, to_, from, to, axis.extent);
    int64_t lost = 0;
    for (int64_t k = 0; k < axis.extent; ++k) {
      lost +=
          cast_runs(axes.subspan(1), from + k * axis.source_stride, to + k * axis.target_stride);
    }
    return lost;
  }

  /// A square where the order changes, so that both sides use whole cache lines; what is left of
  /// the block's size goes to the axes from the innermost on.
  void choose_block() noexcept {
    largest_ = axes_;
    for (Axis& axis : largest_) axis.extent = 1;
    const size_t last = axes_.size() - 1;
    const auto partner = static_cast<size_t>(transpose_partner(axes_));
    int64_t size = 1;
    for (size_t i : {partner, last}) {
      if (partner == last) break;
      largest_[i].extent = std::min(axes_[i].extent, kCastSide);
      size *= largest_[i].extent;
    }
    for (size_t i = axes_.size(); i-- > 0;) {
      const int64_t others = size / largest_[i].extent;
      largest_[i].extent = std::clamp(kCastBlock / others, largest_[i].extent, axes_[i].extent);
      size = others * largest_[i].extent;
    }
    block_ = largest_;
  }

  /// Visits the blocks, by the axes from i on.
  int64_t cast_blocks(size_t i, const std::byte* from, std::byte* to) noexcept {
    if (i == axes_.size()) return cast_block(from, to);
    const Axis& axis = axes_[i];
    int64_t lost = 0;
    for (int64_t k = 0; k < axis.extent; k += largest_[i].extent) {
      block_[i].extent = std::min(largest_[i].extent, axis.extent - k);
      lost += cast_blocks(i + 1, from + k * axis.source_stride, to + k * axis.target_stride);
    }
    return lost;
  }

  int64_t cast_block(const std::byte* from, std::byte* to) noexcept {
    gather_ = block_;
    scatter_ = block_;
    int64_t count = 1;
    for (size_t i = block_.size(); i-- > 0;) {
      gather_[i].target_stride = count * from_bytes_;
      scatter_[i].source_stride = count * to_bytes_;
      count *= block_[i].extent;
    }
    copy_loops({from_bytes_, gather_}, from, gathered_);
    const int64_t lost = cast(from_, to_, gathered_, made_, count);
    std::span<const Axis> outer = scatter_;
    int64_t run = to_bytes_;
    if (outer.back().target_stride == run) {
      run *= outer.back().extent;
      outer = outer.first(outer.size() - 1);
    }
    copy_loops({run, outer}, made_, to);
    return lost;
  }

  const AxisList& axes_;
  DType from_;
  DType to_;
  int64_t from_bytes_;
  int64_t to_bytes_;
  AxisList largest_;  // the steps of each axis in a whole block
  AxisList block_;    // in the block at hand, which may lie at the end of an axis
  AxisList gather_;
  AxisList scatter_;
  alignas(64) std::byte gathered_[kCastBlock * 8];
  alignas(64) std::byte made_[kCastBlock * 8];
};

/// Zeros a run at each step of the axes.
void fill_axes(std::span<const Axis> axes, int64_t run_bytes, std::byte* to) noexcept {
  if (axes.empty()) {
    std::memset(to, 0, static_cast<size_t>(run_bytes));
    return;
  }
  for (int64_t k = 0; k < axes.front().extent; ++k) {
    fill_axes(axes.subspan(1), run_bytes, to + k * axes.front().target_stride);
  }
}

}  // namespace

void copy_region(const Region& region, const std::byte* source, std::byte* target) noexcept {
  const Loops loops = loops_of(region);
  const std::byte* from = source + region.source_offset;
  std::byte* to = target + region.target_offset;
  copy_loops(loops, from, to);
}

int64_t cast_region(const Region& region, DType from, DType to, const std::byte* source,
                    std::byte* target) noexcept {
  StridedCast strided(region, from, to);
  return strided.run(source + region.source_offset, target + region.target_offset);
}

void fill_region(const Region& region, std::byte* target) noexcept {
  std::span<const Axis> axes = region.axes;
  const bool unit = !axes.empty() && axes.back().target_stride == 1;
  const int64_t run = unit ? axes.back().extent : 1;
  fill_axes(unit ? axes.first(axes.size() - 1) : axes, run, target + region.target_offset);
}

}  // namespace weightloom
