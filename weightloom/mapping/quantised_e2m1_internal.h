// Pairs of 4-bit floats with a scale for each group of a row.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

#include "weightloom/mapping/quantised_search_internal.h"

namespace weightloom {

/// The leaves of one such tensor.
struct E2m1Leaves {
  std::string name;                      ///< of the values
  size_t codes = 0;                      ///< [.., rows, columns / 2]
  size_t scale = 0;                      ///< [.., rows, groups]
  std::optional<size_t> global_scale{};  ///< [], [1], or one for each matrix
  GlobalScale global = GlobalScale::none;
  int64_t group_size = 32;  ///< values of a row that share a scale
};

/// Makes the tensor, or says why not. All its leaves are taken already.
void make_e2m1(QuantisedSearch& search, const E2m1Leaves& leaves);

}  // namespace weightloom
