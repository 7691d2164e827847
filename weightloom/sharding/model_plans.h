// The parallel plans that Transformers has for its models.
//
// Shipped as mappings/parallel_plans.json, one entry a line, written by
// tools/export_transformers.py:
//   {"format": "weightloom.parallel_plans/1", "transformers": "5.23.0",
//    "configs": {"llama": {"tp": {"layers.*.self_attn.q_proj": "colwise", …}, "ep": {…}}, …},
//    "classes": {"LlamaForCausalLM": {"tp": {"lm_head": "colwise_gather_output"}}, …}}
//
// Thread safety: an immutable value.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <string_view>

#include "weightloom/base/export.h"
#include "weightloom/mapping/model_tree.h"
#include "weightloom/sharding/tp_plan.h"

namespace weightloom WEIGHTLOOM_EXPORT {

/// Plans by model type and by class; see the top of this file.
class ParallelPlans {
 public:
  /// Empty: nothing has a plan.
  ParallelPlans() = default;
  /// The shipped ones, parsed when first asked for.
  static ParallelPlans built_in();
  /// Errors: format, naming `file` and the place.
  static ParallelPlans parse(std::string_view json, std::string_view file);

  /// What configs of this type say of their base model; empty if nothing.
  const TpPlan& of_config(std::string_view model_type) const;
  /// What the class says beside; empty if nothing.
  const TpPlan& of_class(std::string_view class_name) const;

 private:
  using Plans = std::map<std::string, TpPlan, std::less<>>;

  std::shared_ptr<const Plans> configs_;
  std::shared_ptr<const Plans> classes_;
};

/// The plan of a whole model, as Transformers puts it together. Of each model of the tree: what its
/// class says; what its config says, if it is a base model; then for input embeddings
/// `embed_tokens` that no rule names, if there are other rules, `embedding_rowwise`. A model that
/// is an attribute of another brings its rules below that attribute's name, where they win; one
/// that is held deeper inside, or in a list, brings none.
/// Source: `DistributedMixin.init_parallel_plans`.
/// Errors: unsupported if the class, or some part of the tree, is not known.
TpPlan tp_plan_of(const ModelTree& tree, const ParallelPlans& plans = ParallelPlans::built_in());

}  // namespace weightloom
