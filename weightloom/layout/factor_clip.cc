#include "weightloom/layout/factor_clip.h"

#include <algorithm>
#include <cassert>
#include <numeric>
#include <optional>

#include <fmt/format.h>

#include "weightloom/base/checked.h"
#include "weightloom/base/error.h"

namespace weightloom {
namespace {

/// How a region's offsets lie in a block of m: the axes that m does not divide start at `begin` and
/// reach `span` further; `outer` is the place of the one with the largest stride, if there is any.
struct Remainder {
  int64_t begin = 0;
  int64_t span = 0;
  size_t outer = 0;
};

Remainder remainder_of(const Region& region, int64_t m) noexcept {
  Remainder rem{region.target_offset % m, 0, 0};
  int64_t outer_stride = 0;
  for (size_t i = 0; i < region.axes.size(); ++i) {
    const Axis& axis = region.axes[i];
    if (axis.extent == 1 || axis.target_stride % m == 0) continue;
    rem.span += (axis.extent - 1) * axis.target_stride;
    if (axis.target_stride > outer_stride) {
      outer_stride = axis.target_stride;
      rem.outer = i;
    }
  }
  return rem;
}

/// Steps [first, first + length) of `axis`, which `rest` lacks; `rest` keeps room for it.
Region steps(const Region& rest, const Axis& axis, int64_t first, int64_t length) {
  Region part;
  part.source = rest.source;
  part.pad_value = rest.pad_value;
  part.source_offset = rest.source_offset + first * axis.source_stride;
  part.target_offset = rest.target_offset + first * axis.target_stride;
  part.axes.reserve(rest.axes.size() + 2);
  part.axes = rest.axes;
  if (length > 1) part.axes.push_back({length, axis.target_stride, axis.source_stride});
  return part;
}

Axis remove_axis(Region& region, size_t place) {
  const Axis axis = region.axes[place];
  region.axes.erase(region.axes.begin() + static_cast<std::ptrdiff_t>(place));
  return axis;
}

/// Splits one region by m. The outermost axis that may carry is walked step by step: steps whose
/// inner elements stay inside one block form runs; a step that crosses a block's end is split
/// further by its inner axes. After `period` steps the pattern repeats, so one period is walked and
/// each of its runs gets a new axis that counts the repeats.
class Factoring {
 public:
  explicit Factoring(int64_t m) : m_(m) {}

  void split(Region region) {
    const Remainder rem = remainder_of(region, m_);
    if (rem.begin + rem.span < m_) return emit(std::move(region));
    const Axis axis = remove_axis(region, rem.outer);
    const int64_t inner_span = rem.span - (axis.extent - 1) * axis.target_stride;
    const int64_t period = m_ / std::gcd(axis.target_stride, m_);
    const auto run_at = [&](int64_t position) {  // steps from here that stay in the block
      const int64_t room = m_ - 1 - inner_span - position;
      return room < 0 ? 0 : room / axis.target_stride + 1;
    };
    int64_t step = 0;
    // A region that starts in mid-run gives that run alone, so that none lies across a period's
    // end.
    if (axis.extent > period && rem.begin >= axis.target_stride) {
      step = std::min(run_at(rem.begin), axis.extent);
      if (step > 0) emit(steps(region, axis, 0, step));
    }
    const int64_t end = axis.extent - step > period ? step + period : axis.extent;
    while (step < end) {
      const int64_t run = run_at((rem.begin + step * axis.target_stride) % m_);
      const int64_t length = std::clamp<int64_t>(run, 1, end - step);
      repeat(region, axis, period, step, length);
      step += length;
    }
  }

  std::vector<Region> take() && { return std::move(pieces_); }

 private:
  /// The run [first, first + length) of a period, in this and in every later period.
  void repeat(const Region& rest, const Axis& axis, int64_t period, int64_t first, int64_t length) {
    const int64_t remaining = axis.extent - first;
    const int64_t tail = remaining % period;
    const int64_t whole = remaining / period;
    const int64_t count = whole + (tail >= length ? 1 : 0);
    Region run = steps(rest, axis, first, 1);
    if (count > 1) {
      run.axes.push_back({count, period * axis.target_stride, period * axis.source_stride});
    }
    if (length > 1) run.axes.push_back({length, axis.target_stride, axis.source_stride});
    split(std::move(run));
    if (tail > 0 && tail < length) split(steps(rest, axis, first + whole * period, tail));
  }

  void emit(Region region) {
    if (std::ssize(pieces_) >= kMaxRegions) {
      throw Error(ErrorCode::plan,
                  fmt::format("factoring by blocks of {} elements splits one region into more than "
                              "{} pieces: its strides and the block do not divide one another",
                              m_, kMaxRegions));
    }
    pieces_.push_back(std::move(region));
  }

  int64_t m_;
  std::vector<Region> pieces_;
};

class Clipping {
 public:
  Clipping(int64_t m, int64_t lo, int64_t hi) : m_(m), lo_(lo), hi_(hi) {}

  /// At most one step of an axis crosses `lo` and one crosses `hi`: those are clipped by their
  /// inner axes, the steps between them stay whole.
  void clip(const Region& region) {
    const Remainder rem = remainder_of(region, m_);
    if (rem.begin >= hi_ || rem.begin + rem.span < lo_) return;
    if (rem.begin >= lo_ && rem.begin + rem.span < hi_) return pieces_.push_back(region);
    Region rest = region;
    const Axis axis = remove_axis(rest, rem.outer);
    const int64_t stride = axis.target_stride;
    const int64_t inner_span = rem.span - (axis.extent - 1) * stride;
    const auto first_from = [&](int64_t distance) {
      return distance <= 0 ? 0 : ceil_div(distance, stride);
    };
    const auto last_until = [&](int64_t distance) {
      return distance < 0 ? -1 : std::min(axis.extent - 1, distance / stride);
    };
    const int64_t first_whole = first_from(lo_ - rem.begin);
    const int64_t last_whole = last_until(hi_ - 1 - inner_span - rem.begin);
    const int64_t first_reached = first_from(lo_ - rem.begin - inner_span);
    const int64_t last_reached = last_until(hi_ - 1 - rem.begin);
    const bool any_whole = first_whole <= last_whole;
    if (any_whole) {
      pieces_.push_back(steps(rest, axis, first_whole, last_whole - first_whole + 1));
    }
    const int64_t head_end = any_whole ? first_whole : last_reached + 1;
    const int64_t tail_begin = any_whole ? last_whole + 1 : last_reached + 1;
    for (int64_t k = first_reached; k < head_end; ++k) clip(steps(rest, axis, k, 1));
    for (int64_t k = tail_begin; k <= last_reached; ++k) clip(steps(rest, axis, k, 1));
  }

  std::vector<Region> take() && { return std::move(pieces_); }

 private:
  int64_t m_;
  int64_t lo_;
  int64_t hi_;
  std::vector<Region> pieces_;
};

}  // namespace

bool is_factored(const Region& region, int64_t m) noexcept {
  const Remainder rem = remainder_of(region, m);
  return rem.begin + rem.span < m;
}

std::vector<Region> factor(const Region& region, int64_t m) {
  assert(m > 0);
  Factoring factoring(m);
  factoring.split(region);
  return std::move(factoring).take();
}

std::vector<Region> clip(const Region& region, int64_t m, int64_t lo, int64_t hi) {
  assert(0 <= lo && lo <= hi && hi <= m && is_factored(region, m));
  Clipping clipping(m, lo, hi);
  clipping.clip(region);
  return std::move(clipping).take();
}

}  // namespace weightloom
