#include "weightloom/layout/operation_support_internal.h"

#include <algorithm>

#include "weightloom/layout/factor_clip.h"

namespace weightloom {

int64_t checked_size(const Shape& shape, std::string_view operation) {
  const auto size = checked_elements(shape);
  if (!size) {
    misuse("{}: shape {} has a negative dim or more than 2^63-1 elements", operation,
           to_string(shape));
  }
  return *size;
}

size_t checked_dim(int dim, size_t dims, std::string_view operation) {
  if (dim < 0 || std::cmp_greater_equal(dim, dims)) {
    misuse("{}: dim {} is not in [0, {})", operation, dim, dims);
  }
  return static_cast<size_t>(dim);
}

std::vector<Region> factored(std::vector<Region> regions, int64_t m, std::string_view operation) {
  const auto is_whole = [m](const Region& region) { return is_factored(region, m); };
  if (std::ranges::all_of(regions, is_whole)) return regions;
  RegionList pieces(operation);
  pieces.reserve(regions.size());
  for (Region& region : regions) {
    if (is_factored(region, m)) {
      pieces.add(std::move(region));
    } else {
      for (Region& piece : factor(region, m)) pieces.add(std::move(piece));
    }
  }
  return std::move(pieces).take();
}

std::vector<Region> regions_of(const Layout& layout) {
  return {layout.regions().begin(), layout.regions().end()};
}

}  // namespace weightloom
