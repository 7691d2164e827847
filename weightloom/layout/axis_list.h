// The axes of a region: a vector that keeps a few axes in place. Plans hold a region or more for
// each of a hundred thousand tensors, nearly all of them with one to three axes; an allocation for
// each is what planning would spend most of its time on.
#pragma once

#include <algorithm>
#include <array>
#include <compare>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <iterator>
#include <memory>
#include <span>
#include <utility>

#include "weightloom/base/export.h"

namespace weightloom WEIGHTLOOM_EXPORT {

/// A step of a region: `extent` elements, so far apart on either side.
struct Axis {
  int64_t extent = 1;         ///< number of steps
  int64_t target_stride = 0;  ///< elements between steps in the target
  int64_t source_stride = 0;  ///< elements between steps in the source

  friend bool operator==(const Axis&, const Axis&) = default;
  friend auto operator<=>(const Axis&, const Axis&) = default;
};

/// As std::vector<Axis>, with the part of its interface that is used.
/// Thread safety: a value.
class AxisList {
 public:
  /// @name As in std::vector<Axis>
  /// @{
  using value_type = Axis;
  using iterator = Axis*;
  using const_iterator = const Axis*;

  AxisList() noexcept = default;
  AxisList(std::initializer_list<Axis> axes) : AxisList(axes.begin(), axes.end()) {}
  template <typename Iterator>
  AxisList(Iterator first, Iterator last) {
    reserve(static_cast<size_t>(std::distance(first, last)));
    for (; first != last; ++first) push_back(*first);
  }
  explicit AxisList(std::span<const Axis> axes) : AxisList(axes.begin(), axes.end()) {}
  AxisList(const AxisList& other) : AxisList(other.begin(), other.end()) {}
  AxisList(AxisList&& other) noexcept { take(other); }
  AxisList& operator=(const AxisList& other) {
    if (this != &other) *this = AxisList(other);
    return *this;
  }
  AxisList& operator=(AxisList&& other) noexcept {
    if (this != &other) take(other);
    return *this;
  }
  ~AxisList() = default;

  size_t size() const noexcept { return size_; }
  bool empty() const noexcept { return size_ == 0; }
  Axis* data() noexcept { return heap_ ? heap_.get() : inline_.data(); }
  const Axis* data() const noexcept { return heap_ ? heap_.get() : inline_.data(); }
  iterator begin() noexcept { return data(); }
  iterator end() noexcept { return data() + size_; }
  const_iterator begin() const noexcept { return data(); }
  const_iterator end() const noexcept { return data() + size_; }
  Axis& operator[](size_t i) noexcept { return data()[i]; }
  const Axis& operator[](size_t i) const noexcept { return data()[i]; }
  Axis& front() noexcept { return data()[0]; }
  const Axis& front() const noexcept { return data()[0]; }
  Axis& back() noexcept { return data()[size_ - 1]; }
  const Axis& back() const noexcept { return data()[size_ - 1]; }

  /// Copies first, so that `axis` may stand in this list.
  void push_back(const Axis& axis) {
    const Axis copy = axis;  ///< it may stand in this list
    if (size_ == capacity_) reserve(2 * size_t{capacity_});
    data()[size_++] = copy;
  }
  void pop_back() noexcept { --size_; }
  void clear() noexcept { size_ = 0; }
  /// New axes are Axis{}.
  void resize(size_t size) {
    reserve(size);
    for (size_t i = size_; i < size; ++i) data()[i] = Axis{};
    size_ = static_cast<uint32_t>(size);
  }
  void reserve(size_t capacity) {
    if (capacity <= capacity_) return;
    auto larger = std::make_unique<Axis[]>(capacity);
    std::copy(begin(), end(), larger.get());
    heap_ = std::move(larger);
    capacity_ = static_cast<uint32_t>(capacity);
  }
  iterator erase(const_iterator place) noexcept {
    iterator at = begin() + (place - begin());
    std::copy(at + 1, end(), at);
    --size_;
    return at;
  }
  iterator insert(const_iterator place, const Axis& axis) {
    const std::ptrdiff_t i = place - begin();
    push_back(axis);
    std::rotate(begin() + i, end() - 1, end());
    return begin() + i;
  }

  /// @}

  /// As std::erase_if.
  template <typename Predicate>
  friend size_t erase_if(AxisList& list, Predicate predicate) {
    const size_t before = list.size();
    list.resize(
        static_cast<size_t>(std::remove_if(list.begin(), list.end(), predicate) - list.begin()));
    return before - list.size();
  }

  friend bool operator==(const AxisList& a, const AxisList& b) noexcept {
    return std::equal(a.begin(), a.end(), b.begin(), b.end());
  }

 private:
  static constexpr size_t kInline = 3;

  void take(AxisList& other) noexcept {
    inline_ = other.inline_;
    heap_ = std::move(other.heap_);
    size_ = std::exchange(other.size_, 0);
    capacity_ = std::exchange(other.capacity_, static_cast<uint32_t>(kInline));
  }

  std::array<Axis, kInline> inline_;
  std::unique_ptr<Axis[]> heap_;
  uint32_t size_ = 0;
  uint32_t capacity_ = kInline;
};

}  // namespace weightloom
