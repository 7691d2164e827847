#include "weightloom/sharding/placements.h"

#include <algorithm>
#include <array>
#include <map>
#include <utility>

#include <fmt/format.h>

#include "weightloom/base/error.h"
#include "weightloom/base/file.h"
#include "weightloom/base/glob.h"
#include "weightloom/mapping/strict_json_internal.h"
#include "weightloom/sharding/placements_internal.h"

namespace weightloom {
namespace {

using internal::StrictObject;
using nlohmann::json;
using nlohmann::ordered_json;

constexpr std::array kNamedRules = {CutRule::balanced, CutRule::even, CutRule::round_robin};

StrictObject object(const json& value, const std::string& where,
                    const std::vector<std::string_view>& allowed) {
  return StrictObject(value, where, ErrorCode::format, allowed);
}

int dim_of(const StrictObject& entry, const std::string& key) {
  const int64_t dim = entry.integer(key);
  if (dim < 0 || dim > 63) entry.refuse(fmt::format("'{}' is {}, and no dim", key, dim));
  return static_cast<int>(dim);
}

int64_t at_least(const StrictObject& entry, const std::string& key, int64_t least,
                 int64_t otherwise) {
  if (!entry.has(key)) return otherwise;
  const int64_t value = entry.integer(key);
  if (value < least) entry.refuse(fmt::format("'{}' is {}, below {}", key, value, least));
  return value;
}

CutRule named_rule(const StrictObject& entry) {
  const std::string name = entry.text("rule");
  if (name == to_string(CutRule::chunk)) return CutRule::chunk;
  for (const CutRule rule : kNamedRules) {
    if (name == to_string(rule)) return rule;
  }
  entry.refuse(fmt::format("'rule' is '{}', none of chunk, balanced, even, round_robin", name));
}

std::vector<std::vector<Interval>> table_of(const StrictObject& entry) {
  std::vector<std::vector<Interval>> table;
  for (const json& part : entry.list("table")) {
    std::vector<Interval>& rows = table.emplace_back();
    for (const json& pair : part.is_array() ? part : json::array({nullptr})) {
      const bool is_pair = pair.is_array() && pair.size() == 2;
      const auto begin = is_pair ? internal::to_integer(pair[0]) : std::nullopt;
      const auto end = is_pair ? internal::to_integer(pair[1]) : std::nullopt;
      if (!begin || !end) entry.refuse("'table' needs a list of [begin, end) for each part");
      rows.push_back({*begin, *end});
    }
  }
  return table;
}

/// The keys that say by which rule a cut goes: at most one of them.
Cut cut_of(const StrictObject& entry) {
  Cut cut;
  int given = 0;
  for (const char* key : {"rule", "units", "table"}) given += entry.has(key) ? 1 : 0;
  if (given > 1) entry.refuse("has several of 'rule', 'units' and 'table'");
  if (entry.has("rule")) cut.rule = named_rule(entry);
  if (entry.has("groups")) cut.groups = entry.integers("groups");
  if (entry.has("units")) {
    cut.rule = CutRule::ragged;
    cut.units = entry.integers("units");
    cut.granularity = at_least(entry, "granularity", 1, 1);
  }
  if (entry.has("table")) {
    cut.rule = CutRule::table;
    cut.table = table_of(entry);
  }
  return cut;
}

PadStep pad_from(const json& value, const std::string& where) {
  const StrictObject pad =
      object(value, where + ": 'pad'", {"dim", "multiple", "groups", "at_least"});
  return {dim_of(pad, "dim"), at_least(pad, "multiple", 1, 1), at_least(pad, "groups", 1, 1),
          at_least(pad, "at_least", 0, 0)};
}

CutStep strided_from(const StrictObject& entry) {
  const StrictObject strided = object(entry.at("strided_shard"),
                                      entry.where() + ": 'strided_shard'", {"dim", "split_factor"});
  CutStep step{entry.text("axis"), dim_of(strided, "dim")};
  step.cut = cut_of(entry);
  step.cut.stripes = at_least(strided, "split_factor", 1, 1);
  return step;
}

/// Nothing for a replica.
std::optional<ShardingStep> step_from(const json& value, const std::string& where) {
  const StrictObject entry = object(value, where,
                                    {"axis", "shard", "strided_shard", "replicate", "stage", "pad",
                                     "rule", "groups", "copies", "units", "granularity", "table"});
  int kinds = 0;
  for (const char* kind : {"shard", "strided_shard", "replicate", "stage", "pad"}) {
    kinds += entry.has(kind) ? 1 : 0;
  }
  if (kinds != 1) {
    entry.refuse(
        fmt::format("has {} of 'shard', 'strided_shard', 'replicate', 'stage' and 'pad', "
                    "needed one",
                    kinds));
  }
  if (entry.has("pad")) return pad_from(entry.at("pad"), where);
  const std::string axis = entry.text("axis");
  if (entry.has("replicate")) {
    if (!entry.flag("replicate", false)) entry.refuse("'replicate' must be true");
    return std::nullopt;
  }
  if (entry.has("stage")) return StageStep{axis, entry.integers("stage")};
  if (entry.has("strided_shard")) return strided_from(entry);
  CutStep step{axis, dim_of(entry, "shard")};
  step.cut = cut_of(entry);
  step.copies = at_least(entry, "copies", 1, 1);
  return step;
}

struct StepWriter {
  ordered_json operator()(const CutStep& step) const {
    ordered_json entry = {{"axis", step.axis}};
    if (step.cut.stripes == 1) {
      entry["shard"] = step.dim;
    } else {
      entry["strided_shard"] = {{"dim", step.dim}, {"split_factor", step.cut.stripes}};
    }
    if (std::ranges::find(kNamedRules, step.cut.rule) != kNamedRules.end()) {
      entry["rule"] = to_string(step.cut.rule);
    }
    if (!step.cut.groups.empty()) entry["groups"] = step.cut.groups;
    if (step.copies != 1) entry["copies"] = step.copies;
    if (step.cut.rule == CutRule::ragged) {
      entry["units"] = step.cut.units;
      entry["granularity"] = step.cut.granularity;
    }
    if (step.cut.rule == CutRule::table) entry["table"] = table(step.cut);
    return entry;
  }
  ordered_json operator()(const PadStep& step) const {
    return {{"pad",
             {{"dim", step.dim},
              {"multiple", step.multiple},
              {"groups", step.groups},
              {"at_least", step.least}}}};
  }
  ordered_json operator()(const StageStep& step) const {
    return {{"axis", step.axis}, {"stage", step.coordinates}};
  }

 private:
  static ordered_json table(const Cut& cut) {
    ordered_json parts = ordered_json::array();
    for (const std::vector<Interval>& rows : cut.table) {
      ordered_json part = ordered_json::array();
      for (const Interval& interval : rows) {
        part.push_back(ordered_json::array({interval.begin, interval.end}));
      }
      parts.push_back(std::move(part));
    }
    return parts;
  }
};

}  // namespace

namespace internal {

std::vector<ShardingStep> steps_from_json(const json& list, const std::string& where) {
  if (!list.is_array()) {
    throw Error(ErrorCode::format, fmt::format("{}: placements must be a list", where));
  }
  std::vector<ShardingStep> steps;
  for (size_t i = 0; i < list.size(); ++i) {
    auto step = step_from(list[i], fmt::format("{}: placement {}", where, i));
    if (step) steps.push_back(*std::move(step));
  }
  return steps;
}

ordered_json to_json(const std::vector<ShardingStep>& steps) {
  ordered_json list = ordered_json::array();
  for (const ShardingStep& step : steps) list.push_back(std::visit(StepWriter(), step));
  return list;
}

Mesh mesh_from_json(const json& list, const std::string& where) {
  std::vector<MeshAxis> axes;
  for (const json& entry : list.is_array() ? list : json::array({nullptr})) {
    const bool is_pair = entry.is_array() && entry.size() == 2 && entry[0].is_string();
    const auto size = is_pair ? to_integer(entry[1]) : std::nullopt;
    if (!size) {
      throw Error(ErrorCode::format,
                  fmt::format("{}: a mesh is a list of [axis, size], not {}", where, entry.dump()));
    }
    axes.push_back({entry[0].get<std::string>(), *size});
  }
  try {
    return Mesh::make(std::move(axes));
  } catch (const Error& error) {
    throw Error(ErrorCode::format, fmt::format("{}: {}", where, error.what()), error.next_step());
  }
}

ordered_json to_json(const Mesh& mesh) {
  ordered_json list = ordered_json::array();
  for (const auto& [name, size] : mesh.axes()) list.push_back(ordered_json::array({name, size}));
  return list;
}

}  // namespace internal

std::vector<PlacementRule> parse_placements(std::string_view text, std::string_view file) {
  const json value = internal::parse_json_list(text, file, ErrorCode::format);
  std::vector<PlacementRule> rules;
  for (size_t i = 0; i < value.size(); ++i) {
    const std::string where = fmt::format("{}: rule {}", file, i);
    const StrictObject entry = object(value[i], where, {"pattern", "placements", "mesh"});
    rules.push_back({entry.text("pattern"),
                     {entry.has("mesh") ? entry.text("mesh") : "",
                      internal::steps_from_json(entry.list("placements"), where)}});
  }
  return rules;
}

std::vector<PlacementRule> read_placements(const Syscalls& calls, const std::string& path) {
  return parse_placements(read_whole_file(calls, path), path);
}

const Sharding* find_placement(std::span<const PlacementRule> rules, const std::string& name) {
  const auto found = std::ranges::find_if(
      rules, [&](const PlacementRule& rule) { return glob_matches(rule.pattern, name); });
  return found == rules.end() ? nullptr : &found->sharding;
}

}  // namespace weightloom
