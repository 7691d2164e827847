// The manifest of a sharded folder: `layout.json`, beside one file of tensors for each rank.
//
//   {"format": "weightloom.layout/1", "mesh": [["fsdp", 4], ["tp", 2]],
//    "tensors": {"model.norm.weight": {"shape": [4096], "dtype": "BF16", "placements": [...]}}}
//
// With several meshes, `"meshes": [{"name": "dense", "axes": [...]}, ...]` stands for `mesh`, and a
// tensor may have `"mesh": "expert"`. Shapes are those of whole tensors, without padding;
// placements are as in placements.h. Thread safety: a value.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "weightloom/base/dtype.h"
#include "weightloom/base/export.h"
#include "weightloom/base/shape.h"
#include "weightloom/sharding/sharding.h"

namespace weightloom WEIGHTLOOM_EXPORT {

/// A whole tensor, and how it is spread.
struct ShardedTensor {
  std::string name;          ///< the same on all ranks
  DType dtype = DType::F32;  ///< of each element
  Shape shape;               ///< of the whole, without padding
  Sharding sharding{};       ///< over the meshes

  friend bool operator==(const ShardedTensor&, const ShardedTensor&) = default;
};

/// What a sharded folder holds.
struct LayoutManifest {
  MeshSet meshes;                      ///< that its ranks form
  std::vector<ShardedTensor> tensors;  ///< sorted by name, each once

  friend bool operator==(const LayoutManifest&, const LayoutManifest&) = default;
};

/// Errors: format, naming `file`, the tensor and the key.
LayoutManifest parse_manifest(std::string_view json, std::string_view file);
/// Stable: equal manifests give equal bytes.
/// Law: parse_manifest(format_manifest(m)) == m, for tensors sorted by name.
std::string format_manifest(const LayoutManifest& manifest);

}  // namespace weightloom
