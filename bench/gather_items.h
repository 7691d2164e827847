// What a rank holds of a spread program, described by LoadSpecs: the input of the gathering save.
//
// A target that is made of whole keys, one after another, is one tensor of these keys put together
// along dim 0: the dims that the keys do not have are rows. A cut of one of them is a cut of rows
// in stripes.
#pragma once

#include <span>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "weightloom/base/error.h"
#include "weightloom/comm/hf_save.h"
#include "weightloom/plan/conversion.h"

namespace weightloom {

/// The spec of one target of a program.
class SpecOfTarget {
 public:
  SpecOfTarget(const CopyProgram& program, const ProgramTarget& target)
      : target_(target), left_(target.shape) {
    fields_.name = target.name;
    for (const Region& region : target.regions) add_key(program, region);
    flatten();
  }

  /// Cuts along the mesh's axes, as the target is cut.
  LoadSpec spread_as(const Sharding& sharding, const MeshSet& meshes) && {
    for (const ShardingStep& step : sharding.steps) {
      const auto* cut = std::get_if<CutStep>(&step);
      if (cut == nullptr || cut->cut.rule != CutRule::chunk || cut->copies > 1) refuse();
      const Mesh& mesh = *meshes.find(sharding.mesh);
      add_cut(*cut, mesh.axes()[mesh.find(cut->axis).value()].size);
    }
    return LoadSpec::make(std::move(fields_));
  }

 private:
  [[noreturn]] void refuse() const {
    throw Error(ErrorCode::usage, "no LoadSpec describes tensor '" + target_.name + "'",
                "give another mesh");
  }

  void add_key(const CopyProgram& program, const Region& region) {
    if (region.is_pad()) refuse();
    const ProgramSource& key = program.sources()[static_cast<size_t>(region.source)];
    const bool is_whole = volume(region) == key.size_bytes && region.axes.size() == 1;
    if (!is_whole || (!key_shape_.empty() && key.shape != key_shape_)) refuse();
    key_shape_ = key.shape;
    fields_.global_hf_keys.push_back(key.name);
  }

  void flatten() {
    fields_.global_shape = key_shape_;
    if (fields_.global_hf_keys.size() == 1) return;
    fields_.global_shape[0] *= std::ssize(fields_.global_hf_keys);
    fields_.fused_dim = 0;
    row_dims_ = left_.size() - key_shape_.size() + 1;
  }

  void add_cut(const CutStep& step, int64_t parts) {
    const auto dim = static_cast<size_t>(step.dim);
    ShardDescriptor shard;
    shard.axis = step.axis;
    shard.interleave = step.cut.stripes;
    shard.dim = dim < row_dims_ ? 0 : static_cast<int>(dim - row_dims_ + 1);
    for (size_t i = 0; i < dim && dim < row_dims_; ++i) shard.interleave *= left_[i];
    if (row_dims_ > 1 && left_[dim] % (step.cut.stripes * parts) != 0) refuse();
    left_[dim] /= parts;
    fields_.shards.push_back(std::move(shard));
  }

  const ProgramTarget& target_;
  Shape left_;           // of the target, by the cuts so far
  Shape key_shape_;      // of every key
  size_t row_dims_ = 1;  // dims of the target that are rows of the keys put together
  LoadSpecFields fields_;
};

/// What `rank` holds; `local` by target of the whole program.
/// Errors: usage if no spec describes a target.
inline std::vector<HFSaveItem> items_of(const Conversion& whole, int64_t rank,
                                        std::span<const std::span<std::byte>> local) {
  const CopyProgram& program = whole.program;
  std::vector<HFSaveItem> items;
  for (size_t i = 0; i < program.targets().size(); ++i) {
    const ProgramTarget& target = program.targets()[i];
    const LoadSpec spec = bind(
        SpecOfTarget(program, target).spread_as(whole.spread->shardings[i], whole.spread->meshes),
        whole.spread->meshes, rank);
    items.push_back({target.dtype, local_shape(local_part(spec)), local[i],
                     plan_hf_save(spec, {.distributed_save = true})});
  }
  return items;
}

}  // namespace weightloom
