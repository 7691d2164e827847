// For tests and fuzzers: chains of random operations, done on a layout and on a dense array at
// once.
#pragma once

#include <algorithm>
#include <numeric>
#include <random>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "weightloom/layout/layout_testing.h"
#include "weightloom/layout/operations.h"

namespace weightloom::testing {

/// Draws numbers in [0, n) from a seeded generator.
class SeededDraw {
 public:
  explicit SeededDraw(uint64_t seed) : generator_(seed) {}
  int64_t operator()(int64_t n) {
    return static_cast<int64_t>(generator_() % static_cast<uint64_t>(n));
  }

 private:
  std::mt19937_64 generator_;
};

/// `layout` over `sources` and the dense array it must equal.
template <typename Draw>
class Chain {
 public:
  explicit Chain(Draw& draw) : draw_(draw) {
    Shape shape;
    for (int64_t rank = draw_(5); rank > 0; --rank) shape.push_back(small_size());
    std::tie(layout_, dense_) = leaf(shape);
  }
  /// Begins with a source of this shape.
  Chain(Draw& draw, const Shape& shape) : draw_(draw) { std::tie(layout_, dense_) = leaf(shape); }

  const Layout& layout() const { return layout_; }
  const Dense& dense() const { return dense_; }
  const std::vector<Dense>& sources() const { return sources_; }
  /// Names of the operations done so far.
  const std::string& story() const { return story_; }

  void step() {
    if (draw_(6) == 0 || layout_.rank() == 0) return reshaped();
    const int dim = static_cast<int>(draw_(layout_.rank()));
    const bool small = layout_.size() < 1000;
    switch (draw_(9)) {
      case 0:
        return permuted();
      case 1:
        return transposed(dim);
      case 2:
        return sliced(dim);
      case 3:
        return small ? concatenated(dim) : sliced(dim);
      case 4:
        return small ? stacked(dim) : permuted();
      case 5:
        return unstacked(dim);
      case 6:
        return was_split(dim);
      case 7:
        return interleaved(dim);
      default:
        return small ? padded(dim) : transposed(dim);
    }
  }

 private:
  int64_t small_size() {
    constexpr int64_t kSizes[] = {0, 1, 1, 2, 3, 4, 5, 6, 7, 8, 12, 13};
    return kSizes[draw_(40) == 0 ? 0 : 1 + draw_(11)];
  }
  int64_t rows(int dim) const { return layout_.shape()[static_cast<size_t>(dim)]; }

  std::pair<Layout, Dense> leaf(const Shape& shape) {
    const auto id = static_cast<SourceId>(sources_.size());
    sources_.push_back(counting(shape, 100'000 * (id + 1)));
    return {identity(id, shape), sources_.back()};
  }

  void become(const char* name, Layout layout, Dense dense) {
    layout_ = std::move(layout);
    dense_ = std::move(dense);
    story_ += name + to_string(layout_.shape()) + " ";
  }

  /// A random shape with the same number of elements.
  Shape other_shape() {
    Shape shape;
    int64_t rest = layout_.size();
    if (rest == 0) {
      for (int64_t rank = draw_(3); rank > 0; --rank) shape.push_back(1 + draw_(3));
    }
    for (int64_t parts = draw_(5); parts > 0 && rest > 1; --parts) {
      const int64_t factor = std::gcd(rest, 1 + draw_(30));
      shape.push_back(factor);
      rest /= factor;
    }
    if (rest != 1 || draw_(2) == 0) shape.push_back(rest);
    for (size_t i = shape.size(); i > 1; --i) {
      std::swap(shape[i - 1], shape[static_cast<size_t>(draw_(static_cast<int64_t>(i)))]);
    }
    return shape;
  }

  void reshaped() {
    const Shape shape = other_shape();
    become("reshape", reshape(layout_, shape), dense_reshape(dense_, shape));
  }

  void permuted() {
    std::vector<int> order(static_cast<size_t>(layout_.rank()));
    std::iota(order.begin(), order.end(), 0);
    for (size_t i = order.size(); i > 1; --i) {
      std::swap(order[i - 1], order[static_cast<size_t>(draw_(static_cast<int64_t>(i)))]);
    }
    become("permute", permute(layout_, order), dense_permute(dense_, order));
  }

  void transposed(int dim) {
    const int other = static_cast<int>(draw_(layout_.rank()));
    become("transpose", transpose(layout_, dim, other), dense_transpose(dense_, dim, other));
  }

  void sliced(int dim) {
    int64_t begin = draw_(rows(dim) + 1);
    int64_t end = draw_(rows(dim) + 1);
    if (begin > end) std::swap(begin, end);
    if (begin == end && draw_(4) != 0) begin = 0, end = rows(dim);
    become("slice", slice(layout_, dim, begin, end), dense_slice(dense_, dim, begin, end));
  }

  /// The layout among one or two new leaves, whose dim `dim`, if not -1, has sizes of its own.
  std::pair<std::vector<Layout>, std::vector<Dense>> among_leaves(int dim) {
    std::vector<Layout> layouts = {layout_};
    std::vector<Dense> arrays = {dense_};
    for (int64_t more = 1 + draw_(2); more > 0; --more) {
      Shape shape = layout_.shape();
      if (dim >= 0) shape[static_cast<size_t>(dim)] = draw_(6);
      auto [layout, dense] = leaf(shape);
      const auto place = draw_(std::ssize(layouts) + 1);
      layouts.insert(layouts.begin() + place, std::move(layout));
      arrays.insert(arrays.begin() + place, std::move(dense));
    }
    return {std::move(layouts), std::move(arrays)};
  }

  void concatenated(int dim) {
    const auto [layouts, arrays] = among_leaves(dim);
    become("concat", concat(layouts, dim), dense_concat(arrays, dim));
  }

  void stacked(int dim) {
    const int before = dim + static_cast<int>(draw_(2));
    const auto [layouts, arrays] = among_leaves(-1);
    become("stack", stack(layouts, before), dense_stack(arrays, before));
  }

  void unstacked(int dim) {
    if (rows(dim) == 0) return;
    const int64_t place = draw_(rows(dim));
    become("unstack", unstack(layout_, dim)[static_cast<size_t>(place)],
           dense_take(dense_, dim, place));
  }

  void was_split(int dim) {
    const int64_t first = draw_(rows(dim) + 1);
    const int64_t second = draw_(rows(dim) - first + 1);
    const std::vector<int64_t> sizes = {first, second, rows(dim) - first - second};
    const auto part = static_cast<size_t>(std::ranges::max_element(sizes) -
                                          sizes.begin());  // so that chains stay alive
    const int64_t begin = part == 0 ? 0 : part == 1 ? first : first + second;
    become("split", split(layout_, dim, sizes)[part],
           dense_slice(dense_, dim, begin, begin + sizes[part]));
  }

  void interleaved(int dim) {
    const int64_t ways = 2 + draw_(2);
    const bool inverse = draw_(2) == 0;
    if (rows(dim) % ways != 0) return;
    become("interleave", interleave(layout_, dim, ways, inverse),
           dense_interleave(dense_, dim, ways, inverse));
  }

  void padded(int dim) {
    const int64_t before = draw_(3);
    const int64_t after = draw_(4);
    become("pad", pad(layout_, dim, before, after, 7), dense_pad(dense_, dim, before, after, 7));
  }

  Draw& draw_;
  std::vector<Dense> sources_;
  Layout layout_;
  Dense dense_;
  std::string story_;
};

}  // namespace weightloom::testing
