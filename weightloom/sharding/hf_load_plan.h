// What one rank reads of a checkpoint for one tensor, and where it goes: a snapshot that does not
// refer to the spec it was made of.
//
// Source: the specification "LoadSpec", sections 2.3 and 3.1. Thread safety: values, pure
// functions.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "weightloom/base/export.h"
#include "weightloom/base/shape.h"
#include "weightloom/layout/layout.h"
#include "weightloom/mapping/model_config.h"
#include "weightloom/sharding/load_spec.h"

namespace weightloom WEIGHTLOOM_EXPORT {

/// Rows [start, end) of dim `dim` of what was loaded.
struct LoadSlice {
  int dim = 0;        ///< that is narrowed
  int64_t start = 0;  ///< the first row
  int64_t end = 0;    ///< the one after the last

  friend bool operator==(const LoadSlice&, const LoadSlice&) = default;
};

/// A box that is copied from one key.
struct KeyRegion {
  int64_t key = 0;      ///< its place in hf_keys
  Shape source_offset;  ///< in the key
  Shape target_offset;  ///< in the local tensor
  Shape size;           ///< of both

  friend bool operator==(const KeyRegion&, const KeyRegion&) = default;
};

/// A box that is copied from the keys put together.
struct CopyRegion {
  Shape source_offset;  ///< in the tensor of shape canonical_source_shape
  Shape target_offset;  ///< in the local tensor
  Shape size;           ///< of both

  friend bool operator==(const CopyRegion&, const CopyRegion&) = default;
};

/// See the top of this file.
struct HFLoadPlan {
  std::string name;                  ///< of the tensor in the program
  std::vector<std::string> hf_keys;  ///< those of which bytes are needed, in the spec's order
  std::optional<int> fused_dim;      ///< along which they are put together
  /// What narrows hf_keys put together to what goes into the low corner of the local tensor; empty
  /// too where the regions are not one such box: see is_one_box.
  std::vector<LoadSlice> slices;
  bool zero_fill = false;  ///< nothing is read: the rank holds padding only, or nothing

  bool is_one_box = false;  ///< slices say it all
  /// Shape of each key, as the checkpoint has it.
  Shape key_shape;
  /// Places, in the spec's list, of the first key needed and the one after the last: between them
  /// may stand keys that are not.
  Interval key_range;
  /// Shape of hf_keys put together; with an adapter, of the whole tensor that it gives.
  Shape canonical_source_shape;
  Shape target_shape;  ///< of the local tensor
  /// The regions: each element of the local tensor once or, where it is padding, not at all. With
  /// an adapter there are no boxes, and `layout` says it.
  std::vector<KeyRegion> key_regions;
  std::vector<CopyRegion> copy_regions;  ///< likewise, of hf_keys put together
  bool zero_unwritten_target = false;    ///< some elements of the local tensor are padding
  /// The local tensor over hf_keys: a SourceId is a place there. Padding is a pad of 0.
  Layout layout;
};

/// What the rank of a bound spec reads. `config`: of numbers that the adapter looks up.
/// Errors: usage if the spec is not bound, or its keys do not divide fused_dim; as put_together;
/// plan beyond kMaxRegions boxes.
HFLoadPlan plan_hf_load(const LoadSpec& spec, const ModelConfig& config = {});

}  // namespace weightloom
