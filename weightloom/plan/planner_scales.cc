// How scales are spread over ranks: with the codes that they stand beside.
#include <algorithm>
#include <iterator>
#include <string_view>
#include <unordered_map>
#include <utility>

#include <fmt/format.h>

#include "weightloom/base/checked.h"
#include "weightloom/mapping/companions.h"
#include "weightloom/plan/planner_internal.h"
#include "weightloom/sharding/scale_sharding.h"

namespace weightloom {
namespace {

/// True for dtypes that stand for values only with a scale.
bool holds_codes(DType dtype) {
  return dtype == DType::F8_E4M3 || dtype == DType::F8_E5M2 || dtype == DType::I8;
}

/// How tensors are called that hold several codes an element, or say how.
constexpr std::string_view kPackedSuffixes[] = {
    ".qweight",    ".qzeros",       ".g_idx",  ".SCB",           "_packed",
    "_zero_point", ".weight_shape", ".absmax", ".nested_absmax",
};

bool is_packed(std::string_view name) {
  return std::ranges::any_of(kPackedSuffixes,
                             [name](std::string_view suffix) { return name.ends_with(suffix); });
}

/// The first axis that cuts a tensor into parts that differ; "" if ranks hold it whole.
std::string cutting_axis(const Sharding& sharding) {
  for (const ShardingStep& step : sharding.steps) {
    if (const auto* cut = std::get_if<CutStep>(&step)) return cut->axis;
  }
  return "";
}

}  // namespace

/// Of packed codes a part does not stand alone: its zero points, groups and shape are cut
/// otherwise.
void Planner::refuse_cut_of_packed(const Spread& spread) {
  const auto targets = result_.program.targets();
  for (size_t i = 0; i < targets.size(); ++i) {
    if (!is_packed(targets[i].name)) continue;
    const std::string axis = cutting_axis(spread.shardings[i]);
    if (axis.empty()) continue;
    add_error("packed_cut", targets[i].name,
              fmt::format("'{}' {} belongs to packed codes, and {} would cut it: a rank could not "
                          "decode its part",
                          targets[i].name, to_string(targets[i].shape), axis));
  }
}

/// Scales go where the blocks of their tensor go.
void Planner::spread_scales(Spread& spread) {
  refuse_cut_of_packed(spread);
  const auto targets = result_.program.targets();
  std::unordered_map<std::string_view, size_t> codes;
  for (size_t i = 0; i < targets.size(); ++i) {
    if (holds_codes(targets[i].dtype)) codes.emplace(targets[i].name, i);
  }
  if (codes.empty()) return;
  for (size_t i = 0; i < targets.size(); ++i) {
    for (const std::string& owner : companion_owners(targets[i].name, rules_.companions())) {
      const auto found = codes.find(owner);
      if (found == codes.end()) continue;
      spread_scales_of(targets[found->second], spread.shardings[found->second], targets[i],
                       spread.meshes, spread.shardings[i]);
    }
  }
}

void Planner::spread_scales_of(const ProgramTarget& codes, const Sharding& sharding,
                               const ProgramTarget& scales, const MeshSet& meshes, Sharding& made) {
  const auto block = block_of_scales(codes, scales);
  if (!block) return;
  ScaleSharding found = sharding_of_scales(sharding, meshes, codes.shape, *block);
  made = std::move(found.sharding);
  if (found.refusal.empty()) return;
  add_error("inside_block", codes.name,
            fmt::format("'{}' {}: {}, so '{}' cannot be cut along", codes.name,
                        to_string(codes.shape), found.refusal, scales.name));
}

/// How many values of each dim share a scale: forced where there is one for each or for all of
/// them, else declared. Nothing if these are no scales of codes, or nothing declares it.
std::optional<BlockShape> Planner::block_of_scales(const ProgramTarget& codes,
                                                   const ProgramTarget& scales) const {
  if (elements(scales.shape) == 1) return BlockShape(codes.shape.size(), 0);
  if (scales.shape.size() != codes.shape.size()) return {};
  BlockShape declared = declared_block(codes.name, scales.name);
  if (declared.size() > codes.shape.size()) return {};
  declared.insert(declared.begin(), codes.shape.size() - declared.size(), -1);
  BlockShape block;
  for (size_t d = 0; d < codes.shape.size(); ++d) {
    const int64_t size = scales.shape[d];
    block.push_back(size == codes.shape[d] ? 1 : size == 1 ? 0 : declared[d]);
    const bool fits = block.back() <= 1 || ceil_div(codes.shape[d], block.back()) == size;
    if (block.back() < 0 || !fits) return {};
  }
  return block;
}

/// Of the last dims, as the encoder or config.json says.
BlockShape Planner::declared_block(const std::string& codes, const std::string& scales) const {
  const auto encoded = encoded_blocks_.find(scales);
  if (encoded != encoded_blocks_.end()) return encoded->second;
  std::vector<CompanionRule> rules = rules_.companions();
  rules.insert(rules.end(), default_companion_rules().begin(), default_companion_rules().end());
  for (const CompanionRule& rule : rules) {
    if (codes + rule.suffix != scales) continue;
    if (const auto block = rule.block_of(facts_.config)) return *block;
  }
  return facts_.config.integers_at("quantization_config.weight_block_size").value_or(BlockShape{});
}

}  // namespace weightloom
