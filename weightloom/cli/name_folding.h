// Names that differ in numbers only, as one: `layers.0.w`, `layers.1.w` → `layers.{0..1}.w`.
// Thread safety: values.
#pragma once

#include <cstdint>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace weightloom::cli {

/// A name cut at its dots: components that are decimal numbers are taken out.
struct NumberedName {
  std::string skeleton;          // a NUL in the place of each number; names hold no NUL
  std::vector<int64_t> numbers;  // in order
};
/// Law: the numbers put back into the skeleton give `name`; "007" is no number. `reused` lends its
/// storage, for callers that go through many names.
NumberedName number_name(std::string_view name, NumberedName reused = {});

/// A set of numbers, which are small and repeat.
class NumberSet {
 public:
  void add(int64_t number);
  std::vector<int64_t> ascending() const;

 private:
  std::vector<bool> small_;  // by number
  std::set<int64_t> large_;
};

/// `3`, `{0..31}`, `{1..31..2}` (every second), `{0..2,61}`; "" for none.
std::string numbers_text(const std::vector<int64_t>& ascending);

/// Names of one skeleton.
class FoldedName {
 public:
  explicit FoldedName(std::string skeleton);

  /// `numbers` has one number for each place of the skeleton.
  void add(std::span<const int64_t> numbers);
  int64_t count() const noexcept { return count_; }
  /// How many places the skeleton has.
  size_t places() const noexcept { return places_.size(); }
  /// The skeleton with what stands in each place: `3`, `{0..31}`, `{1..31..2}` (every second),
  /// `{0..2,61}`. Where not all combinations of the places occur, count() is below their product.
  std::string text() const;

 private:
  std::string skeleton_;
  std::vector<NumberSet> places_;
  int64_t count_ = 0;
};

}  // namespace weightloom::cli
