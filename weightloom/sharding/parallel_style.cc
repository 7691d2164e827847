#include "weightloom/sharding/parallel_style.h"

#include <algorithm>
#include <array>
#include <vector>

#include <fmt/format.h>

#include "weightloom/base/error.h"
#include "weightloom/base/quote.h"
#include "weightloom/mapping/spelling.h"

namespace weightloom {
namespace {

constexpr int64_t kPacked = 2;  // parts of a packed weight: gate and up

/// What a style cuts.
enum class Cuts { nothing, outputs, packed_outputs, inputs, packed_inputs, first_dim, second_dim };

struct Style {
  ParallelStyle style;
  std::string_view name;
  Cuts cuts;
};

using enum ParallelStyle;
constexpr auto kStyles = std::to_array<Style>({
    {colwise, "colwise", Cuts::outputs},
    {colwise_gather_output, "colwise_gather_output", Cuts::outputs},
    {colwise_rep, "colwise_rep", Cuts::outputs},
    {rowwise, "rowwise", Cuts::inputs},
    {rowwise_split_input, "rowwise_split_input", Cuts::inputs},
    {rowwise_rep, "rowwise_rep", Cuts::inputs},
    {packed_colwise, "packed_colwise", Cuts::packed_outputs},
    {packed_rowwise, "packed_rowwise", Cuts::packed_inputs},
    {embedding_rowwise, "embedding_rowwise", Cuts::first_dim},
    {embedding_colwise, "embedding_colwise", Cuts::second_dim},
    {grouped_gemm, "grouped_gemm", Cuts::first_dim},
    {ep_dispatch_experts, "ep_dispatch_experts", Cuts::nothing},
    {moe_tp_experts, "moe_tp_experts", Cuts::nothing},
    {moe_identity_expert, "moe_identity_expert", Cuts::nothing},
    {mla_kv_a_proj, "mla_kv_a_proj", Cuts::nothing},
    {replicated_with_grad_allreduce, "replicated_with_grad_allreduce", Cuts::nothing},
    {all_reduce, "all_reduce", Cuts::nothing},
    {sequence_parallel, "sequence_parallel", Cuts::nothing},
    {local_params, "local_params", Cuts::nothing},
    {replicate, "replicate", Cuts::nothing},
});

constexpr bool stands_in_order() {
  for (size_t i = 0; i < kStyles.size(); ++i) {
    if (static_cast<size_t>(kStyles[i].style) != i) return false;
  }
  return kStyles.size() == static_cast<size_t>(replicate) + 1;
}
static_assert(stands_in_order());

constexpr const Style& entry_of(ParallelStyle style) { return kStyles[static_cast<size_t>(style)]; }

[[noreturn]] void refuse(std::string_view name, std::string_view where) {
  if (name == "ep_router") {
    throw Error(ErrorCode::format,
                fmt::format("{}: the style 'ep_router' was removed from Transformers: experts go "
                            "to ranks whole",
                            where),
                "drop the router's rule; give the experts module 'ep_dispatch_experts', and its "
                "gate_up_proj and down_proj 'grouped_gemm'");
  }
  std::vector<std::string> names;
  for (const Style& style : kStyles) names.emplace_back(style.name);
  throw Error(ErrorCode::format,
              fmt::format("{}: there is no parallel style {}", where, quote(name)),
              fmt::format("the nearest are '{}'", fmt::join(closest(name, names, 3), "', '")));
}

/// The place of a dim from the front, or (below 0) from the back.
int dim_at(int dim, ParallelStyle style, std::string_view name, const Shape& shape) {
  const int rank = static_cast<int>(shape.size());
  const int place = dim < 0 ? rank + dim : dim;
  if (place >= 0 && place < rank) return place;
  throw Error(ErrorCode::usage, fmt::format("{}: the style '{}' cuts dim {}, but the shape is {}",
                                            quote(name), to_string(style), dim, to_string(shape)));
}

/// Where the output features stand: before the last dim, if there is one before it.
int output_dim(const Shape& shape) { return shape.size() == 1 ? -1 : -2; }

bool is_bias(std::string_view name) { return name == "bias" || name.ends_with(".bias"); }

}  // namespace

std::string_view to_string(ParallelStyle style) noexcept { return entry_of(style).name; }

ParallelStyle parse_style(std::string_view name, std::string_view where) {
  const auto* const found = std::ranges::find(kStyles, name, &Style::name);
  if (found == kStyles.end()) refuse(name, where);
  return found->style;
}

bool is_expert_style(ParallelStyle style) noexcept {
  return style == grouped_gemm || style == ep_dispatch_experts;
}

bool cuts_tensors(ParallelStyle style) noexcept { return entry_of(style).cuts != Cuts::nothing; }

std::optional<CutStep> cut_by(ParallelStyle style, std::string_view axis, std::string_view name,
                              const Shape& shape) {
  if (shape.empty()) return std::nullopt;
  const auto cut = [&](int dim, int64_t stripes = 1) {
    return CutStep{std::string(axis), dim_at(dim, style, name, shape), Cut{.stripes = stripes}};
  };
  const bool is_vector = shape.size() == 1;
  switch (entry_of(style).cuts) {
    case Cuts::nothing:
      return std::nullopt;
    case Cuts::outputs:
      return cut(output_dim(shape));
    case Cuts::packed_outputs:
      return cut(output_dim(shape), is_vector ? 1 : kPacked);
    case Cuts::inputs:
      return is_bias(name) ? std::nullopt : std::optional(cut(-1));
    case Cuts::packed_inputs:
      return is_vector ? std::nullopt : std::optional(cut(-1, kPacked));
    case Cuts::first_dim:
      return cut(0);
    case Cuts::second_dim:
      return cut(1);
  }
  __builtin_unreachable();
}

}  // namespace weightloom
