// What the operations share; not for use outside of this room.
#pragma once

#include <cstdint>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "weightloom/base/error.h"
#include "weightloom/layout/layout.h"

namespace weightloom {

template <typename... Args>
[[noreturn]] void misuse(fmt::format_string<Args...> text, Args&&... args) {
  throw Error(ErrorCode::usage, fmt::format(text, std::forward<Args>(args)...));
}

/// The number of elements.
/// Errors: usage if a dim is negative or the number exceeds 64 bits.
int64_t checked_size(const Shape& shape, std::string_view operation);
/// `dim` as an index.
/// Errors: usage if it is not in [0, dims).
size_t checked_dim(int dim, size_t dims, std::string_view operation);

/// Collects the regions of a result and holds them below kMaxRegions.
class RegionList {
 public:
  explicit RegionList(std::string_view operation) : operation_(operation) {}

  void reserve(size_t count) { regions_.reserve(count); }
  void add(Region region) {
    if (std::ssize(regions_) >= kMaxRegions) {
      throw Error(ErrorCode::plan,
                  fmt::format("{}: the result has more than {} regions", operation_, kMaxRegions));
    }
    regions_.push_back(std::move(region));
  }
  std::vector<Region> take() && { return std::move(regions_); }

 private:
  std::string_view operation_;
  std::vector<Region> regions_;
};

std::vector<Region> regions_of(const Layout& layout);
/// All regions split by m; those that need no splitting are moved.
std::vector<Region> factored(std::vector<Region> regions, int64_t m, std::string_view operation);

}  // namespace weightloom
