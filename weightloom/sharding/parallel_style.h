// The parallel styles of Transformers: how a module's tensors are split over a group of ranks.
//
// Source: transformers/distributed/{tensor_parallel,expert_parallel}.py (5.23), `shard_param` of
// each style. Thread safety: pure functions.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "weightloom/base/export.h"
#include "weightloom/base/shape.h"
#include "weightloom/sharding/sharding.h"

namespace weightloom WEIGHTLOOM_EXPORT {

/// By what Transformers calls them. Those that say nothing else here leave a module's tensors whole
/// and change what it computes only.
enum class ParallelStyle {
  colwise,                ///< the output features: dim 0 of a weight or bias, 1 of experts
  colwise_gather_output,  ///< the same
  colwise_rep,            ///< the same
  rowwise,                ///< the last dim, but for a `bias`, which stays whole
  rowwise_split_input,    ///< the same
  rowwise_rep,            ///< the same
  packed_colwise,         ///< as colwise, of each of two halves (gate|up); a bias in one piece
  packed_rowwise,         ///< the last dim, of each of two halves; a bias stays whole
  embedding_rowwise,      ///< dim 0
  embedding_colwise,      ///< dim 1
  grouped_gemm,           ///< dim 0, the experts, of which each rank has as many as the others
  ep_dispatch_experts,
  moe_tp_experts,
  moe_identity_expert,
  mla_kv_a_proj,
  replicated_with_grad_allreduce,
  all_reduce,
  sequence_parallel,
  local_params,
  replicate,
};

/// The name in Transformers.
std::string_view to_string(ParallelStyle style) noexcept;
/// The style of that name.
/// Errors: format, with `where` in front, if there is none; `ep_router`, which was removed, with
/// what to write instead.
ParallelStyle parse_style(std::string_view name, std::string_view where);

/// True for the styles of expert parallelism.
bool is_expert_style(ParallelStyle style) noexcept;
/// False for the styles that leave every tensor whole.
bool cuts_tensors(ParallelStyle style) noexcept;

/// How the style cuts the tensor called `name` along `axis`; nothing if it leaves it whole, as a
/// tensor without dims.
/// Errors: usage, naming tensor and style, if the tensor has no such dim.
std::optional<CutStep> cut_by(ParallelStyle style, std::string_view axis, std::string_view name,
                              const Shape& shape);

}  // namespace weightloom
