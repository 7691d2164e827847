// Parallel plans: which tensors of a model are split over tensor-parallel and expert-parallel
// ranks, by rules from names to styles; and what becomes of each tensor on a mesh.
//
// A rule's pattern is the name of a module or of a parameter, with `*` for the numbers of layers:
// `layers.*.self_attn.q_proj`. A tensor has the rule of its own name, else that of its module, so
// that `colwise` on a linear layer covers weight and bias.
//
// Axes go by their names. A tensor is cut in this order, each step acting on what is left:
//   1. `ep`, by a rule for expert parallelism;
//   2. or else `tp`, by a rule for tensor parallelism. What stands at or below a module that expert
//      parallelism names has no such rule;
//   3. `fsdp`: dim 0, ⌈n/parts⌉ rows each. Of what expert parallelism names, `efsdp` if its mesh
//      has that axis. Buffers stay whole: FSDP spreads parameters.
// A rule whose axis the mesh lacks, or has with one rank, does nothing, and removes nothing. Along
// `dp`, `hsdp`, `dp_replicate` and `replicate`, and along every axis that a tensor is not cut by,
// ranks hold replicas. What expert parallelism names lies on the mesh called `expert`, where there
// is one; all else on the first that is not called so.
//
// Source: transformers/distributed/{parallel_utils,mixin}.py (5.23).
// Thread safety: values, pure functions.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "weightloom/base/error.h"
#include "weightloom/base/export.h"
#include "weightloom/base/shape.h"
#include "weightloom/base/syscalls.h"
#include "weightloom/sharding/mesh.h"
#include "weightloom/sharding/parallel_style.h"
#include "weightloom/sharding/sharding.h"

namespace weightloom WEIGHTLOOM_EXPORT {

/// Styles by pattern.
using StyleRules = std::map<std::string, ParallelStyle, std::less<>>;

/// The rules of a model, for both kinds of parallelism.
struct TpPlan {
  StyleRules tp{};     ///< along the axis `tp`
  StyleRules ep{};     ///< along the axis `ep`
  std::string file{};  ///< that a user wrote; "": the model's own

  friend bool operator==(const TpPlan&, const TpPlan&) = default;
};

/// `{"layers.*.self_attn.q_proj": "colwise", …}`. Rules of an expert style (`grouped_gemm`,
/// `ep_dispatch_experts`) are for `ep`, the others for `tp`.
/// Errors: format, naming `file` and the rule.
TpPlan parse_tp_plan(std::string_view json, std::string file);
/// The file at `path`.
/// Errors: as parse_tp_plan; not_found, io.
TpPlan read_tp_plan(const Syscalls& calls, const std::string& path);

/// A name as patterns have it: `*` for a number between dots, or after the last one.
/// Source: `replace_layer_number_by_wildcard`: of two numbers in a row only the first is replaced.
std::string pattern_name(std::string_view name);

/// A tensor by name and shape.
struct NamedShape {
  std::string name;        ///< in the runtime layout
  Shape shape;             ///< of the whole
  bool is_buffer = false;  ///< no parameter of its module
};

/// How a plan spreads a tensor.
/// Precondition: check_axes() accepts plan and meshes.
/// Errors: usage, naming tensor and style, if the tensor lacks the dim, or if experts do not divide
/// among the ranks of `ep`, with both numbers.
Sharding sharding_for(const TpPlan& plan, const MeshSet& meshes, const NamedShape& tensor);

/// What shardings_for() gives.
struct PlannedShardings {
  std::vector<Sharding> shardings;  ///< one per tensor; where there is an error, no steps
  std::vector<Finding> findings{};  ///< all at once: `bad_style` for each tensor that a rule does
                                    ///< not fit; of a user's plan also, as a report,
                                    ///< `unused_rule` for each rule that matches none of them
};
/// How a plan spreads these tensors.
/// Errors: as check_axes.
PlannedShardings shardings_for(const TpPlan& plan, const MeshSet& meshes,
                               std::span<const NamedShape> tensors);

/// Errors: usage if an axis of more than one rank is none of those that plans know, or is `tp` or
/// `ep` and the plan has no rule for it.
void check_axes(const TpPlan& plan, const MeshSet& meshes);

}  // namespace weightloom
