// For tests: dense arrays with numpy's operations written element by element, and the evaluator
// that gathers a layout's elements from such arrays. All of it is slow and obvious; that is its
// use.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <span>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "weightloom/base/shape.h"
#include "weightloom/layout/layout.h"
#include "weightloom/layout/notation.h"

namespace weightloom::testing {

struct Dense {
  Shape shape;
  std::vector<int64_t> values;

  friend bool operator==(const Dense&, const Dense&) = default;
};

using Index = std::vector<int64_t>;

inline size_t ravel(const Index& index, const Shape& shape) {
  int64_t offset = 0;
  for (size_t i = 0; i < shape.size(); ++i) offset = offset * shape[i] + index[i];
  return static_cast<size_t>(offset);
}

inline Index unravel(int64_t offset, const Shape& shape) {
  Index index(shape.size());
  for (size_t i = shape.size(); i-- > 0;) {
    index[i] = offset % shape[i];
    offset /= shape[i];
  }
  return index;
}

inline int64_t at(const Dense& array, const Index& index) {
  return array.values[ravel(index, array.shape)];
}

/// The array whose element at each index is `value(index)`.
template <typename Value>
Dense built(Shape shape, Value value) {
  Dense result{std::move(shape), {}};
  for (int64_t i = 0; i < elements(result.shape); ++i) {
    result.values.push_back(value(unravel(i, result.shape)));
  }
  return result;
}

/// first, first + 1, … in row-major order.
inline Dense counting(Shape shape, int64_t first = 0) {
  return built(shape, [&, next = first](const Index&) mutable { return next++; });
}

inline Dense dense_reshape(Dense array, Shape shape) {
  array.shape = std::move(shape);
  return array;
}

inline Dense dense_slice(const Dense& array, int dim, int64_t begin, int64_t end) {
  const auto d = static_cast<size_t>(dim);
  Shape shape = array.shape;
  shape[d] = end - begin;
  return built(shape, [&](Index index) {
    index[d] += begin;
    return at(array, index);
  });
}

inline Dense dense_permute(const Dense& array, std::span<const int> order) {
  Shape shape;
  for (const int dim : order) shape.push_back(array.shape[static_cast<size_t>(dim)]);
  return built(shape, [&](const Index& index) {
    Index from(index.size());
    for (size_t i = 0; i < index.size(); ++i) from[static_cast<size_t>(order[i])] = index[i];
    return at(array, from);
  });
}

inline Dense dense_transpose(const Dense& array, int dim0, int dim1) {
  std::vector<int> order;
  for (size_t i = 0; i < array.shape.size(); ++i) order.push_back(static_cast<int>(i));
  std::swap(order[static_cast<size_t>(dim0)], order[static_cast<size_t>(dim1)]);
  return dense_permute(array, order);
}

inline Dense dense_concat(std::span<const Dense> parts, int dim) {
  const auto d = static_cast<size_t>(dim);
  Shape shape = parts[0].shape;
  shape[d] = 0;
  for (const Dense& part : parts) shape[d] += part.shape[d];
  return built(shape, [&](Index index) {
    size_t part = 0;
    for (; index[d] >= parts[part].shape[d]; ++part) index[d] -= parts[part].shape[d];
    return at(parts[part], index);
  });
}

inline Dense dense_stack(std::span<const Dense> parts, int dim) {
  Shape shape = parts[0].shape;
  shape.insert(shape.begin() + dim, std::ssize(parts));
  return built(shape, [&](Index index) {
    const auto part = static_cast<size_t>(index[static_cast<size_t>(dim)]);
    index.erase(index.begin() + dim);
    return at(parts[part], index);
  });
}

/// One of the arrays that unstack gives.
inline Dense dense_take(const Dense& array, int dim, int64_t place) {
  Shape shape = array.shape;
  shape.erase(shape.begin() + dim);
  return built(shape, [&](Index index) {
    index.insert(index.begin() + dim, place);
    return at(array, index);
  });
}

inline Dense dense_interleave(const Dense& array, int dim, int64_t ways, bool inverse) {
  const auto d = static_cast<size_t>(dim);
  const int64_t n = array.shape[d] / ways;
  return built(array.shape, [&](Index index) {
    const int64_t row = index[d];
    index[d] = inverse ? row % ways * n + row / ways : row % n * ways + row / n;
    return at(array, index);
  });
}

inline Dense dense_pad(const Dense& array, int dim, int64_t before, int64_t after, int64_t value) {
  const auto d = static_cast<size_t>(dim);
  Shape shape = array.shape;
  shape[d] += before + after;
  return built(shape, [&](Index index) {
    index[d] -= before;
    return index[d] < 0 || index[d] >= array.shape[d] ? value : at(array, index);
  });
}

/// One element of a region: where it goes and where it comes from.
struct Pair {
  int64_t target = 0;
  int64_t source_offset = 0;
  SourceId source = kPad;
  int64_t pad_value = 0;

  friend auto operator<=>(const Pair&, const Pair&) = default;
};

inline void append_pairs(std::vector<Pair>& pairs, const Region& region, size_t axis,
                         int64_t target, int64_t source) {
  if (axis == region.axes.size()) {
    pairs.push_back({target, source, region.source, region.pad_value});
    return;
  }
  const Axis& a = region.axes[axis];
  for (int64_t k = 0; k < a.extent; ++k) {
    append_pairs(pairs, region, axis + 1, target + k * a.target_stride,
                 source + k * a.source_stride);
  }
}

inline std::vector<Pair> unsorted_pairs_of(std::span<const Region> regions) {
  std::vector<Pair> pairs;
  for (const Region& region : regions) {
    append_pairs(pairs, region, 0, region.target_offset, region.source_offset);
  }
  return pairs;
}

/// All pairs of the regions, sorted, repeats included.
inline std::vector<Pair> pairs_of(std::span<const Region> regions) {
  std::vector<Pair> pairs = unsorted_pairs_of(regions);
  std::ranges::sort(pairs);
  return pairs;
}

/// The layout's elements. Throws std::logic_error unless each is given exactly once.
inline Dense gather(const Layout& layout, std::span<const Dense> sources) {
  Dense result{layout.shape(), std::vector<int64_t>(static_cast<size_t>(layout.size()))};
  std::vector<int> times(result.values.size(), 0);
  for (const Pair& pair : unsorted_pairs_of(layout.regions())) {
    const auto target = static_cast<size_t>(pair.target);
    ++times.at(target);
    result.values[target] = pair.source == kPad
                                ? pair.pad_value
                                : sources[static_cast<size_t>(pair.source)].values.at(
                                      static_cast<size_t>(pair.source_offset));
  }
  for (size_t i = 0; i < times.size(); ++i) {
    if (times[i] != 1) {
      throw std::logic_error("element " + std::to_string(i) + " is given " +
                             std::to_string(times[i]) + " times by " + to_string(layout));
    }
  }
  return result;
}

/// What of the invariant of regions a layout breaks; empty if it holds.
inline std::string invariant_fault(const Layout& layout) {
  for (const Region& region : layout.regions()) {
    for (size_t i = 0; i < region.axes.size(); ++i) {
      if (region.axes[i].extent < 2) return "extent below 2: " + to_string(region);
      if (i > 0 && region.axes[i].target_stride >= region.axes[i - 1].target_stride) {
        return "axes out of order: " + to_string(region);
      }
    }
    if (!nested_on_target(region)) return "target side not nested: " + to_string(region);
    if (!region.is_pad() && !nested_on_source(region)) {
      return "source side not nested: " + to_string(region);
    }
  }
  return "";
}

/// The seed of random tests: WEIGHTLOOM_SEED, or a fixed one. Tests print it when they fail.
inline uint64_t test_seed() {
  const char* seed = std::getenv("WEIGHTLOOM_SEED");
  return seed == nullptr ? 20240607 : std::strtoull(seed, nullptr, 10);
}

}  // namespace weightloom::testing
