// LoadSpec: how a tensor that a program holds maps to the tensors of a published checkpoint.
//
// Two questions, answered apart: of which keys is the tensor made and how are they put together
// (`global_hf_keys` along `fused_dim`, then `adapter`), and which part of it does a rank hold
// (`shards`, each acting on what the ones before left). There are no kinds of specs. A spec is
// layout alone: it knows shapes and indices, neither dtypes nor models; padding that a runtime adds
// is told by `origin_shape` and its scope. Arithmetic is that of sharding.h: shards become cuts.
//
// A shard says its part in one of three ways: rows [start, end); part `rank` of `size`, in
// `interleave` stripes; or along an axis of a mesh, which tells rank and size later (bind), so that
// one spec serves all ranks.
// Source: the specification "LoadSpec", sections 1 and 2. Thread safety: immutable values.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <variant>
#include <vector>

#include "weightloom/base/dtype.h"
#include "weightloom/base/export.h"
#include "weightloom/base/shape.h"
#include "weightloom/mapping/operation.h"
#include "weightloom/sharding/mesh.h"
#include "weightloom/sharding/sharding.h"

namespace weightloom WEIGHTLOOM_EXPORT {

/// The ranks that share a cut: a name, or the global ranks in the group's order. Groups are the
/// same if they are written alike.
using ShardGroup = std::variant<std::string, std::vector<int64_t>>;
/// `'ep'`, or `[0, 2]`.
std::string group_text(const ShardGroup& group);

/// One cut of a dim, as one rank sees it; see the top of this file for the three ways.
struct ShardDescriptor {
  int dim = 0;                        ///< that is cut
  std::optional<int64_t> start{};     ///< in what the shards before left; with `end`
  std::optional<int64_t> end{};       ///< the row after the last
  std::optional<int64_t> size{};      ///< of the group; with `rank`
  std::optional<int64_t> rank{};      ///< in the group
  int64_t interleave = 1;             ///< stripes that stand in the dim by now, each cut
  std::string axis{};                 ///< of a mesh; alone it is the third way, else a name
  std::optional<ShardGroup> group{};  ///< whom a save gathers from

  /// True if a mesh has to tell rank and size.
  bool is_unbound() const noexcept { return !axis.empty() && !size && !start; }
  friend bool operator==(const ShardDescriptor&, const ShardDescriptor&) = default;
};

/// Where padding stands.
enum class PadScope {
  tail,     ///< at the tail of each dim of the whole tensor
  per_key,  ///< along fused_dim at the tail of each key, along other dims at the tail
  per_cut,  ///< along the dim that the shard on `axis` cuts, at the tail of each of its parts
};
/// Where padding stands, and for per_cut the shard: by its axis, or its group's name.
struct SpecPadding {
  PadScope scope = PadScope::tail;  ///< where
  std::string axis{};               ///< of per_cut

  friend bool operator==(const SpecPadding&, const SpecPadding&) = default;
};

/// What a spec is made of; LoadSpec::make checks it.
struct LoadSpecFields {
  std::string name{};                         ///< of the tensor in the program
  std::vector<std::string> global_hf_keys{};  ///< in the order in which they are put together
  Shape global_shape{};                       ///< of the whole tensor, padding included
  std::optional<int> fused_dim{};             ///< along which keys are put together
  std::vector<ShardDescriptor> shards{};      ///< from the outside in
  std::optional<Shape> origin_shape{};        ///< without padding; nothing: there is none
  SpecPadding padding{};                      ///< where it stands
  std::vector<OperationPtr> adapter{};        ///< what is done to the keys put together
  std::optional<Shape> local_shape{};         ///< recorded by someone: must agree
};

/// See the top of this file.
class LoadSpec {
 public:
  /// Errors: usage, naming the spec, with the numbers: fused_dim not given with several keys, or
  /// given with one; no key, or one twice; origin_shape of another rank or larger; a shard's dim or
  /// rows outside what is left, half a way, or two that disagree; an interleave that does not
  /// divide on some rank of the groups; padding of a scope that does not divide; a local_shape that
  /// is not the derived one.
  static LoadSpec make(LoadSpecFields fields);

  const std::string& name() const noexcept { return fields_.name; }  ///< in the program
  /// In the order in which they are put together.
  const std::vector<std::string>& global_hf_keys() const noexcept { return fields_.global_hf_keys; }
  const Shape& global_shape() const noexcept { return fields_.global_shape; }  ///< with padding
  std::optional<int> fused_dim() const noexcept { return fields_.fused_dim; }  ///< if is_fused()
  /// In carving order.
  const std::vector<ShardDescriptor>& shards() const noexcept { return fields_.shards; }
  const SpecPadding& padding() const noexcept { return fields_.padding; }  ///< its scope
  /// Run on the keys put together, before any cut.
  const std::vector<OperationPtr>& adapter() const noexcept { return fields_.adapter; }
  const LoadSpecFields& fields() const noexcept { return fields_; }  ///< all of it

  /// True if several keys make the tensor.
  bool is_fused() const noexcept { return fields_.global_hf_keys.size() > 1; }
  /// True if a rank holds a part.
  bool is_sharded() const noexcept { return !fields_.shards.empty(); }
  /// As a checkpoint has it: without padding.
  const Shape& unpadded_global_shape() const noexcept {
    return fields_.origin_shape ? *fields_.origin_shape : fields_.global_shape;
  }
  /// True if no shard needs a mesh.
  bool is_bound() const noexcept;

 private:
  explicit LoadSpec(LoadSpecFields fields) : fields_(std::move(fields)) {}

  LoadSpecFields fields_;
};

/// The spec of one rank: shards along axes get size, rank and group from the mesh. The mesh is the
/// first that has all of the axes.
/// Errors: usage if no mesh has them, or as LoadSpec::make.
LoadSpec bind(const LoadSpec& spec, const MeshSet& meshes, int64_t rank);

/// The spec's padding and shards as steps over the mesh that bind() takes. Of a spec that is bound:
/// tables over the mesh of one_rank().
/// Errors: usage as bind(); if some shards are bound and others not.
Sharding to_sharding(const LoadSpec& spec, const MeshSet& meshes);
/// The mesh that the sharding of a bound spec speaks of: one rank.
MeshSet one_rank();

/// What the rank of a bound spec holds of the tensor without padding.
/// Precondition: is_bound().
LocalPart local_part(const LoadSpec& spec);
/// As if only the shards at these places, ascending, were there.
LocalPart local_part(const LoadSpec& spec, std::span<const size_t> shards);

/// A tensor that a rank holds, as it was given.
struct HeldTensor {
  Shape shape{};             ///< of the local tensor
  DType dtype = DType::F32;  ///< of each element
};
/// Holds a tensor against the spec of its rank, before it is loaded or saved. `dtype`: that of the
/// other side, where nothing casts.
/// Errors: usage, with both shapes or both dtypes: the spec was not derived anew after a change.
/// Precondition: is_bound().
void check_tensor(const LoadSpec& spec, const HeldTensor& tensor,
                  std::optional<DType> dtype = std::nullopt);

/// Rows of a key along fused_dim; of a single key nothing.
/// Errors: usage if the keys do not divide the dim.
std::optional<int64_t> key_size(const LoadSpec& spec);

}  // namespace weightloom
