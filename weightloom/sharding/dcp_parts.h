// What a rank's file says to PyTorch's distributed checkpoints: where in the whole each of its
// tensors begins. Such a file can be read by HuggingFaceStorageReader.
// Source: torch/distributed/checkpoint/hf_storage.py (2.13), metadata key DCP_SHARDING_INFO.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "weightloom/base/export.h"
#include "weightloom/base/shape.h"
#include "weightloom/sharding/sharding.h"

namespace weightloom WEIGHTLOOM_EXPORT {

/// A tensor of a rank's file; what it says is borrowed.
struct DcpPart {
  std::string_view name;             ///< of the whole tensor too
  std::span<const int64_t> offsets;  ///< of its first element in the whole
};

/// The metadata's value for a file of these parts, in the order given.
std::string format_dcp_parts(const std::vector<DcpPart>& parts);
/// Where a part of a tensor of `shape` begins, if it is one box of it without padding; else
/// nothing. An empty one begins where the dim ends: torch takes parts that begin alike for one.
std::optional<Shape> box_offsets(const LocalPart& part, const Shape& shape);

}  // namespace weightloom
