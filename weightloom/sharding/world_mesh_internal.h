// Meshes of all ranks, found from where tensors' own meshes put their ranks. Private to the
// library.
// Thread safety: values, pure functions.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "weightloom/sharding/mesh.h"
#include "weightloom/sharding/rank_tensors.h"

namespace weightloom::internal {

/// An axis of all ranks: neighbours along it are `stride` ranks apart.
struct WorldAxis {
  std::string name;
  int64_t size = 1;
  int64_t stride = 1;

  friend bool operator==(const WorldAxis&, const WorldAxis&) = default;
};

/// A mesh of all ranks, outermost axis first.
struct WorldMesh {
  std::vector<WorldAxis> axes;

  Mesh mesh() const;
  bool has(const std::vector<WorldAxis>& some) const;
  /// "dp_tp".
  std::string joined_names() const;
};

/// Ranks apart along each axis of a tensor's mesh; nothing where they are not evenly apart.
std::optional<std::vector<int64_t>> strides_of(const RankTensor& tensor);

/// The axes, and between them axes for the ranks that they leave out. Nothing if they overlap.
std::optional<WorldMesh> mesh_around(std::vector<WorldAxis> axes, int64_t ranks);

}  // namespace weightloom::internal
