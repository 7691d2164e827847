// A mesh: the ranks of a parallel program, arranged along named axes.
//
// Rank = row-major coordinate, outermost axis first: in `fsdp=4,tp=2` rank 5 is fsdp 2, tp 1. A
// program may see its ranks as several meshes at once, all of one size (`dense: fsdp=8,tp=4;
// expert: ep=32`). Thread safety: immutable values.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "weightloom/base/export.h"

namespace weightloom WEIGHTLOOM_EXPORT {

/// An axis of a mesh.
struct MeshAxis {
  std::string name;  ///< letters, digits and underscores
  int64_t size = 1;  ///< at least 1

  friend bool operator==(const MeshAxis&, const MeshAxis&) = default;
};

/// Ranks along named axes; see the top of this file.
class Mesh {
 public:
  /// One rank, no axes.
  Mesh() = default;
  /// Errors: usage if a name is empty, repeated or has other characters, a size is below 1, or
  /// there are more than 2³¹ ranks.
  static Mesh make(std::vector<MeshAxis> axes);
  /// `fsdp=4,tp=2`.
  /// Errors: usage, with the text.
  static Mesh parse(std::string_view text);

  /// Outermost first.
  std::span<const MeshAxis> axes() const noexcept { return axes_; }
  /// Number of ranks.
  int64_t size() const noexcept { return size_; }
  /// The place of the axis called `name`; nothing if there is none.
  std::optional<size_t> find(std::string_view name) const noexcept;
  /// Where a rank stands along each axis.
  /// Precondition: 0 ≤ rank < size().
  std::vector<int64_t> coordinate(int64_t rank) const;
  /// Where a rank stands along axis `place`.
  int64_t coordinate(int64_t rank, size_t place) const noexcept;
  /// The rank at a coordinate; the inverse of coordinate().
  int64_t rank_at(std::span<const int64_t> coordinate) const noexcept;
  /// The ranks that differ from `rank` along the axes at `places` only, ascending, itself among
  /// them: the group of a collective over these axes.
  std::vector<int64_t> group_of(int64_t rank, std::span<const size_t> places) const;

  friend bool operator==(const Mesh&, const Mesh&) = default;

 private:
  std::vector<MeshAxis> axes_;
  int64_t size_ = 1;
};
/// `fsdp=4,tp=2`.
std::string to_string(const Mesh& mesh);

/// A mesh by name, of several that the same ranks form.
struct NamedMesh {
  std::string name;  ///< "" where there is one only
  Mesh mesh;         ///< all of one size

  friend bool operator==(const NamedMesh&, const NamedMesh&) = default;
};

/// The meshes that a program's ranks form.
class MeshSet {
 public:
  /// One mesh of one rank.
  MeshSet() : meshes_{{"", Mesh()}} {}
  /// One mesh, without a name.
  explicit MeshSet(Mesh mesh) : meshes_{{"", std::move(mesh)}} {}
  /// Errors: usage if there is none, names repeat, or sizes differ (each with its size).
  static MeshSet make(std::vector<NamedMesh> meshes);
  /// `fsdp=4,tp=2`, or `dense: fsdp=8,tp=4; expert: ep=32`.
  /// Errors: usage, with the text.
  static MeshSet parse(std::string_view text);

  /// In the order given; the first is the one that tensors use if they name none.
  std::span<const NamedMesh> meshes() const noexcept { return meshes_; }
  /// Number of ranks.
  int64_t size() const noexcept { return meshes_.front().mesh.size(); }
  /// The first mesh.
  const Mesh& first() const noexcept { return meshes_.front().mesh; }
  /// The mesh called `name`; "" is the first. Null if there is none.
  const Mesh* find(std::string_view name) const noexcept;

  friend bool operator==(const MeshSet&, const MeshSet&) = default;

 private:
  std::vector<NamedMesh> meshes_;
};
/// As parse() reads it.
std::string to_string(const MeshSet& meshes);

}  // namespace weightloom
