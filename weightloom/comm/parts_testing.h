// For tests: tensors of int32 whose elements count from 0, and what ranks hold of them, element by
// element.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <numeric>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "weightloom/comm/unshard.h"

namespace weightloom::testing {

inline std::span<const std::byte> bytes_of(const std::vector<int32_t>& numbers) {
  return std::as_bytes(std::span(numbers));
}
inline std::vector<int32_t> numbers_of(std::span<const std::byte> bytes) {
  std::vector<int32_t> numbers(bytes.size() / sizeof(int32_t));
  if (!bytes.empty()) std::memcpy(numbers.data(), bytes.data(), bytes.size());
  return numbers;
}

/// The places that are held of each dim.
using Places = std::vector<std::vector<int64_t>>;

inline Places all_places(const Shape& shape) {
  Places places;
  for (const int64_t size : shape) {
    places.emplace_back(static_cast<size_t>(size));
    std::iota(places.back().begin(), places.back().end(), int64_t{0});
  }
  return places;
}

/// The elements of a tensor of `shape` at these places, in order.
inline std::vector<int32_t> elements_at(const Shape& shape, const Places& places) {
  std::vector<int32_t> found = {0};
  for (size_t dim = 0; dim < shape.size(); ++dim) {
    std::vector<int32_t> next;
    for (const int32_t offset : found) {
      for (const int64_t place : places[dim]) {
        next.push_back(offset * static_cast<int32_t>(shape[dim]) + static_cast<int32_t>(place));
      }
    }
    found = std::move(next);
  }
  return found;
}
/// All elements.
inline std::vector<int32_t> counted(const Shape& shape) {
  return elements_at(shape, all_places(shape));
}
/// The elements whose place along `dim` lies in the intervals.
inline std::vector<int32_t> rows_of(const Shape& shape, size_t dim,
                                    const std::vector<Interval>& intervals) {
  Places places = all_places(shape);
  places[dim].clear();
  for (const Interval& interval : intervals) {
    for (int64_t row = interval.begin; row < interval.end; ++row) places[dim].push_back(row);
  }
  return elements_at(shape, places);
}

/// Part `part` of `parts` of some places: ⌈n/stripes⌉ in a group, of each ⌈size/parts⌉ to a part.
inline std::vector<int64_t> cut_places(const std::vector<int64_t>& places, int64_t stripes,
                                       int64_t parts, int64_t part) {
  const auto ceiling = [](int64_t a, int64_t b) { return (a + b - 1) / b; };
  const int64_t n = std::ssize(places);
  const int64_t group = std::max<int64_t>(ceiling(n, stripes), 1);
  std::vector<int64_t> mine;
  for (int64_t i = 0; i < n; ++i) {
    const int64_t begin = i / group * group;
    const int64_t share = ceiling(std::min(group, n - begin), parts);
    if ((i - begin) / share == part) mine.push_back(places[static_cast<size_t>(i)]);
  }
  return mine;
}

/// A part, and its bytes.
struct LocalTensor {
  std::vector<int32_t> numbers;
  ShardedPart part{};
};

/// Tensors that the ranks of `a=2,b=2` hold parts of.
struct RandomTensors {
  struct Step {
    int axis = 0;  // 0 for a, 1 for b
    int dim = 0;
    int64_t stripes = 1;
  };
  std::vector<Shape> shapes;
  std::vector<std::vector<Step>> steps;  // in carving order
  std::string story;

  std::vector<LocalTensor> of_rank(int64_t rank) const {
    std::vector<LocalTensor> locals(shapes.size());
    for (size_t i = 0; i < shapes.size(); ++i) cut(i, rank, locals[i]);
    return locals;
  }

 private:
  static Shape shape_of(const Places& places) {
    Shape shape;
    for (const auto& dim : places) shape.push_back(std::ssize(dim));
    return shape;
  }

  void cut(size_t tensor, int64_t rank, LocalTensor& local) const {
    Places places = all_places(shapes[tensor]);
    for (const Step& step : steps[tensor]) {
      const int64_t coordinate = step.axis == 0 ? rank / 2 : rank % 2;
      const GroupRanks group = step.axis == 0 ? GroupRanks{rank % 2, rank % 2 + 2}
                                              : GroupRanks{rank / 2 * 2, rank / 2 * 2 + 1};
      local.part.steps.insert(local.part.steps.begin(),
                              {group, step.dim, {.stripes = step.stripes}, shape_of(places)});
      auto& dim = places[static_cast<size_t>(step.dim)];
      dim = cut_places(dim, step.stripes, 2, coordinate);
    }
    local.numbers = elements_at(shapes[tensor], places);
    local.part.name = "tensor " + std::to_string(tensor);
    local.part.dtype = DType::I32;
    local.part.shape = shape_of(places);
    local.part.bytes = bytes_of(local.numbers);
  }
};

inline RandomTensors random_tensors(std::mt19937_64& draw) {
  const auto below = [&](uint64_t n) { return static_cast<int64_t>(draw() % n); };
  RandomTensors random;
  for (int64_t tensors = 1 + below(5); tensors > 0; --tensors) {
    Shape shape;
    for (int64_t rank = 1 + below(3); rank > 0; --rank) shape.push_back(below(8));
    std::vector<RandomTensors::Step> steps;
    const int first = static_cast<int>(below(2));
    for (int64_t count = below(3); count > 0; --count) {
      const int axis = steps.empty() ? first : 1 - first;
      steps.push_back({axis, static_cast<int>(below(shape.size())), 1 + below(3)});
      random.story += "axis " + std::to_string(axis) + " dim " + std::to_string(steps.back().dim) +
                      " stripes " + std::to_string(steps.back().stripes) + "; ";
    }
    random.story += "of " + to_string(shape) + "\n";
    random.shapes.push_back(std::move(shape));
    random.steps.push_back(std::move(steps));
  }
  return random;
}

}  // namespace weightloom::testing
