#include "weightloom/sharding/load_specs_json.h"

#include <limits>
#include <set>
#include <utility>

#include <fmt/format.h>

#include "weightloom/base/error.h"
#include "weightloom/base/file.h"
#include "weightloom/base/quote.h"
#include "weightloom/mapping/operation_makers_internal.h"

namespace weightloom {
namespace {

using internal::StrictObject;
using nlohmann::json;
using nlohmann::ordered_json;

bool is_given(const StrictObject& entry, const std::string& key) {
  return entry.has(key) && !entry.at(key).is_null();
}

int dim_of(const StrictObject& entry, const std::string& key) {
  const int64_t dim = entry.integer(key);
  if (dim < 0 || dim > std::numeric_limits<int>::max()) {
    entry.refuse(fmt::format("'{}' is {}, and no dim", key, dim));
  }
  return static_cast<int>(dim);
}

std::optional<int64_t> optional_integer(const StrictObject& entry, const std::string& key) {
  if (!is_given(entry, key)) return std::nullopt;
  return entry.integer(key);
}

std::optional<ShardGroup> group_of(const StrictObject& entry) {
  if (!is_given(entry, "group")) return std::nullopt;
  if (entry.at("group").is_string()) return ShardGroup(entry.text("group"));
  return ShardGroup(entry.integers("group"));
}

ShardDescriptor shard_from(const json& value, const std::string& where) {
  const StrictObject entry(value, where, ErrorCode::format,
                           {"dim", "start", "end", "size", "rank", "interleave", "axis", "group"});
  return {.dim = dim_of(entry, "dim"),
          .start = optional_integer(entry, "start"),
          .end = optional_integer(entry, "end"),
          .size = optional_integer(entry, "size"),
          .rank = optional_integer(entry, "rank"),
          .interleave = optional_integer(entry, "interleave").value_or(1),
          .axis = is_given(entry, "axis") ? entry.text("axis") : "",
          .group = group_of(entry)};
}

SpecPadding padding_from(const StrictObject& entry) {
  const json& value = entry.at("padding");
  if (value.is_object()) {
    const StrictObject cut(value, entry.where() + ": 'padding'", ErrorCode::format, {"per_cut"});
    return {PadScope::per_cut, cut.text("per_cut")};
  }
  const std::string scope = entry.text("padding");
  if (scope == "tail") return {};
  if (scope == "per_key") return {PadScope::per_key};
  entry.refuse(fmt::format(R"('padding' is {}, none of "tail", "per_key" and {{"per_cut": AXIS}})",
                           quote(scope)));
}

LoadSpecFields fields_from(const json& value, const std::string& where,
                           const OperationMakers& operations) {
  const StrictObject entry(value, where, ErrorCode::format,
                           {"name", "global_hf_keys", "global_shape", "fused_dim", "shards",
                            "origin_shape", "padding", "adapter", "local_shape"});
  LoadSpecFields fields{.name = entry.text("name"),
                        .global_hf_keys = entry.texts("global_hf_keys"),
                        .global_shape = entry.integers("global_shape")};
  if (is_given(entry, "fused_dim")) fields.fused_dim = dim_of(entry, "fused_dim");
  if (is_given(entry, "origin_shape")) fields.origin_shape = entry.integers("origin_shape");
  if (is_given(entry, "local_shape")) fields.local_shape = entry.integers("local_shape");
  if (is_given(entry, "padding")) fields.padding = padding_from(entry);
  if (is_given(entry, "adapter")) {
    fields.adapter =
        internal::read_operations(entry.list("adapter"), where + ": adapter", operations);
  }
  if (!is_given(entry, "shards")) return fields;
  const json& shards = entry.list("shards");
  for (size_t i = 0; i < shards.size(); ++i) {
    fields.shards.push_back(shard_from(shards[i], fmt::format("{}: shard {}", where, i)));
  }
  return fields;
}

LoadSpec spec_from(const json& value, const std::string& where, const OperationMakers& operations) {
  LoadSpecFields fields = fields_from(value, where, operations);
  try {
    return LoadSpec::make(std::move(fields));
  } catch (const Error& error) {
    throw Error(ErrorCode::format, fmt::format("{}: {}", where, error.what()), error.next_step());
  }
}

ordered_json to_json(const ShardDescriptor& shard) {
  ordered_json entry = {{"dim", shard.dim}};
  if (shard.start) entry["start"] = *shard.start;
  if (shard.end) entry["end"] = *shard.end;
  if (shard.size) entry["size"] = *shard.size;
  if (shard.rank) entry["rank"] = *shard.rank;
  if (!shard.axis.empty()) entry["axis"] = shard.axis;
  if (shard.interleave != 1) entry["interleave"] = shard.interleave;
  if (shard.group) {
    std::visit([&entry](const auto& group) { entry["group"] = group; }, *shard.group);
  }
  return entry;
}

ordered_json to_json(const LoadSpec& spec) {
  const LoadSpecFields& fields = spec.fields();
  ordered_json entry = {{"name", fields.name},
                        {"global_hf_keys", fields.global_hf_keys},
                        {"global_shape", fields.global_shape}};
  if (fields.fused_dim) entry["fused_dim"] = *fields.fused_dim;
  entry["shards"] = ordered_json::array();
  for (const ShardDescriptor& shard : fields.shards) entry["shards"].push_back(to_json(shard));
  if (fields.origin_shape) entry["origin_shape"] = *fields.origin_shape;
  if (fields.padding.scope == PadScope::per_key) entry["padding"] = "per_key";
  if (fields.padding.scope == PadScope::per_cut) {
    entry["padding"] = {{"per_cut", fields.padding.axis}};
  }
  if (fields.local_shape) entry["local_shape"] = *fields.local_shape;
  for (const OperationPtr& operation : fields.adapter) {
    entry["adapter"].push_back(ordered_json::parse(operation->to_json()));
  }
  return entry;
}

}  // namespace

std::vector<LoadSpec> parse_load_specs(std::string_view text, std::string_view file,
                                       const OperationMakers& operations) {
  const json value = internal::parse_json_list(text, file, ErrorCode::format);
  std::vector<LoadSpec> specs;
  std::set<std::string> names;
  for (size_t i = 0; i < value.size(); ++i) {
    const std::string where = fmt::format("{}: spec {}", file, i);
    specs.push_back(spec_from(value[i], where, operations));
    if (names.insert(specs.back().name()).second) continue;
    throw Error(ErrorCode::format, fmt::format("{}: there is a spec called {} already", where,
                                               quote(specs.back().name())));
  }
  return specs;
}

std::vector<LoadSpec> read_load_specs(const Syscalls& calls, const std::string& path,
                                      const OperationMakers& operations) {
  return parse_load_specs(read_whole_file(calls, path), path, operations);
}

std::string format_load_specs(std::span<const LoadSpec> specs) {
  std::string text = "[";
  for (size_t i = 0; i < specs.size(); ++i) {
    text += (i == 0 ? "\n" : ",\n") + to_json(specs[i]).dump();
  }
  return text + "\n]\n";
}

}  // namespace weightloom
