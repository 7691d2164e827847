// What one rank holds of many tensors. Layers are alike: each distinct shape with its sharding is
// carved once.
// Thread safety: one thread at a time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <unordered_map>

#include "weightloom/base/export.h"
#include "weightloom/base/shape.h"
#include "weightloom/sharding/mesh.h"
#include "weightloom/sharding/sharding.h"

namespace weightloom WEIGHTLOOM_EXPORT {

/// Borrows the meshes, and the shardings and shapes that it is asked for.
class LocalParts {
 public:
  /// Of what this rank holds.
  LocalParts(const MeshSet& meshes, int64_t rank) : meshes_(meshes), rank_(rank) {}

  /// Law: local_part(sharding, meshes, shape, rank). What is given lives as long as this.
  const std::optional<LocalPart>& of(const Sharding& sharding, const Shape& shape);

 private:
  struct Question {
    const Sharding* sharding;
    const Shape* shape;

    bool operator==(const Question& other) const {
      return *shape == *other.shape && *sharding == *other.sharding;
    }
  };
  struct Hash {
    size_t operator()(const Question& question) const noexcept;
  };

  const MeshSet& meshes_;
  int64_t rank_;
  std::unordered_map<Question, std::optional<LocalPart>, Hash> known_;
};

}  // namespace weightloom
