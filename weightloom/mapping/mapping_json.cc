// The JSON form of mappings, both ways.
#include <array>
#include <limits>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "weightloom/mapping/mapping.h"
#include "weightloom/mapping/operation_internal.h"
#include "weightloom/mapping/spelling.h"
#include "weightloom/mapping/strict_json_internal.h"

namespace weightloom {
namespace {

using internal::StrictObject;
using nlohmann::json;

constexpr std::string_view kFormat = "weightloom.mapping/1";

/// An operation's object, with the reading of what its parameters share.
class OperationReader {
 public:
  OperationReader(const json& value, std::string where,
                  std::initializer_list<std::string_view> parameters)
      : object_(value, std::move(where), ErrorCode::mapping, parameters) {}

  const StrictObject& object() const { return object_; }
  int dim(const std::string& key) const {
    const int64_t value = object_.integer(key);
    if (value < 0 || value > std::numeric_limits<int>::max()) {
      object_.refuse(fmt::format("'{}' must be 0 or more, not {}", key, value));
    }
    return static_cast<int>(value);
  }
  std::vector<std::string> texts_if_any(const std::string& key) const {
    return object_.has(key) ? object_.texts(key) : std::vector<std::string>{};
  }

 private:
  StrictObject object_;
};

OperationPtr read_chunk(const json& value, const std::string& where) {
  const OperationReader reader(value, where, {"op", "dim"});
  return make_chunk(reader.dim("dim"));
}

OperationPtr read_split(const json& value, const std::string& where) {
  const OperationReader reader(value, where, {"op", "dim", "sizes"});
  return make_split(reader.dim("dim"), reader.object().integers("sizes"));
}

OperationPtr read_concatenate(const json& value, const std::string& where) {
  const OperationReader reader(value, where, {"op", "dim", "sizes"});
  const bool sized = reader.object().has("sizes");
  return make_concatenate(reader.dim("dim"),
                          sized ? reader.object().integers("sizes") : std::vector<int64_t>{});
}

OperationPtr read_interleave(const json& value, const std::string& where) {
  const OperationReader reader(value, where, {"op", "dim", "inverse"});
  return make_interleave(reader.dim("dim"), reader.object().flag("inverse", false));
}

OperationPtr read_merge_modulelist(const json& value, const std::string& where) {
  const OperationReader reader(value, where, {"op", "dim", "count"});
  return make_merge_modulelist(reader.dim("dim"), reader.texts_if_any("count"));
}

OperationPtr read_split_modulelist(const json& value, const std::string& where) {
  const OperationReader reader(value, where, {"op", "dim", "count"});
  return make_split_modulelist(reader.dim("dim"), reader.texts_if_any("count"));
}

OperationPtr read_transpose(const json& value, const std::string& where) {
  const OperationReader reader(value, where, {"op", "dim0", "dim1", "check_dims"});
  return make_transpose(reader.dim("dim0"), reader.dim("dim1"),
                        reader.object().flag("check_dims", false));
}

OperationPtr read_permute_for_rope(const json& value, const std::string& where) {
  const OperationReader reader(
      value, where, {"op", "num_heads", "subconfig_key", "permute_layer_names", "inverse"});
  const StrictObject& object = reader.object();
  RopeParameters rope;
  rope.num_heads_key = "num_attention_heads";
  if (object.has("num_heads")) {
    const bool is_key = object.at("num_heads").is_string();
    rope.num_heads_key = is_key ? object.text("num_heads") : "";
    rope.num_heads = is_key ? 0 : object.integer("num_heads");
  }
  if (object.has("subconfig_key")) rope.subconfig_key = object.text("subconfig_key");
  rope.permute_layer_names = reader.texts_if_any("permute_layer_names");
  rope.inverse = object.flag("inverse", false);
  return make_permute_for_rope(std::move(rope));
}

struct OperationForm {
  std::string_view name;
  OperationPtr (*read)(const json&, const std::string&);
};

constexpr std::array<OperationForm, 8> kOperations = {{
    {"Chunk", read_chunk},
    {"Split", read_split},
    {"Concatenate", read_concatenate},
    {"Interleave", read_interleave},
    {"MergeModulelist", read_merge_modulelist},
    {"SplitModulelist", read_split_modulelist},
    {"Transpose", read_transpose},
    {"PermuteForRope", read_permute_for_rope},
}};

[[noreturn]] void refuse_name(const std::string& where, std::string_view what,
                              const std::string& name, const std::vector<std::string>& known) {
  const auto near = closest(name, known, 1);
  throw Error(ErrorCode::mapping,
              fmt::format("{}: there is no {} '{}'{}: {}", where, what, name,
                          near.empty() ? "" : fmt::format(", did you mean '{}'?", near.front()),
                          near.empty() ? fmt::format("there are {}", fmt::join(known, ", "))
                                       : std::string("spelling counts")));
}

OperationPtr read_operation(const json& value, const std::string& where) {
  if (!value.is_object() || !value.contains("op") || !value["op"].is_string()) {
    throw Error(ErrorCode::mapping, fmt::format("{}: must be an object with a string 'op'", where));
  }
  const auto name = value["op"].get<std::string>();
  std::vector<std::string> known;
  for (const auto& form : kOperations) {
    if (form.name == name) return form.read(value, where);
    known.emplace_back(form.name);
  }
  refuse_name(where, "operation", name, known);
}

/// A maker's own refusal, with the place in the file before it.
OperationPtr read_operation_at(const json& value, const std::string& where) {
  try {
    return read_operation(value, where);
  } catch (const Error& error) {
    if (std::string_view(error.what()).starts_with(where)) throw;
    throw Error(error.code(), fmt::format("{}: {}", where, error.what()));
  }
}

WeightRenaming read_renaming(const json& value, const std::string& where) {
  const StrictObject object(value, where, ErrorCode::mapping,
                            {"type", "source_patterns", "target_patterns", "required"});
  return {object.texts("source_patterns"), object.texts("target_patterns"),
          object.flag("required", false)};
}

WeightConverter read_converter(const json& value, const std::string& where) {
  const StrictObject object(
      value, where, ErrorCode::mapping,
      {"type", "source_patterns", "target_patterns", "operations", "required"});
  WeightConverter converter{object.texts("source_patterns"),
                            object.texts("target_patterns"),
                            {},
                            object.flag("required", false)};
  const json& operations = object.list("operations");
  for (size_t i = 0; i < operations.size(); ++i) {
    converter.operations.push_back(
        read_operation_at(operations[i], fmt::format("{}.operations[{}]", where, i)));
  }
  return converter;
}

WeightTransform read_transform(const json& value, const std::string& where) {
  if (!value.is_object() || !value.contains("type") || !value["type"].is_string()) {
    throw Error(ErrorCode::mapping,
                fmt::format("{}: must be an object with a string 'type'", where));
  }
  const auto type = value["type"].get<std::string>();
  if (type == "WeightRenaming") return read_renaming(value, where);
  if (type == "WeightConverter") return read_converter(value, where);
  refuse_name(where, "transform type", type, {"WeightRenaming", "WeightConverter"});
}

std::string patterns_json(const std::vector<std::string>& sources,
                          const std::vector<std::string>& targets, bool required) {
  return fmt::format(R"("source_patterns": {}, "target_patterns": {}{})",
                     internal::to_json_list(sources), internal::to_json_list(targets),
                     required ? R"(, "required": true)" : "");
}

std::string to_json(const WeightRenaming& t) {
  return fmt::format(R"({{"type": "WeightRenaming", {}}})",
                     patterns_json(t.source_patterns, t.target_patterns, t.required));
}

std::string to_json(const WeightConverter& t) {
  std::vector<std::string> operations;
  for (const auto& operation : t.operations) operations.push_back(operation->to_json());
  return fmt::format(R"({{"type": "WeightConverter", {}, "operations": [{}]}})",
                     patterns_json(t.source_patterns, t.target_patterns, t.required),
                     fmt::join(operations, ", "));
}

}  // namespace

Mapping Mapping::parse(std::string_view json_text, std::string_view file) {
  const json root = internal::parse_json_object(json_text, file, ErrorCode::mapping);
  const StrictObject object(root, std::string(file), ErrorCode::mapping,
                            {"format", "name", "aliases", "renames_first", "transforms"});
  if (object.text("format") != kFormat) {
    object.refuse(
        fmt::format("format is '{}', but needs to be '{}'", object.text("format"), kFormat));
  }
  std::vector<WeightTransform> transforms;
  const json& list = object.list("transforms");
  for (size_t i = 0; i < list.size(); ++i) {
    transforms.push_back(read_transform(list[i], fmt::format("{}: transforms[{}]", file, i)));
  }
  try {
    Mapping mapping(object.text("name"), std::move(transforms));
    if (mapping.name_.empty()) object.refuse("'name' is empty");
    if (object.has("aliases")) mapping.aliases_ = object.texts("aliases");
    mapping.renames_first_ = object.flag("renames_first", true);
    return mapping;
  } catch (const Error& error) {
    if (std::string_view(error.what()).starts_with(file)) throw;
    throw Error(error.code(), fmt::format("{}: {}", file, error.what()));
  }
}

std::string Mapping::to_json() const {
  std::string text =
      fmt::format(R"({{"format": "{}", "name": {})", kFormat, internal::to_json_string(name_));
  if (!aliases_.empty()) text += R"(, "aliases": )" + internal::to_json_list(aliases_);
  if (!renames_first_) text += R"(, "renames_first": false)";
  text += R"(, "transforms": [)";
  for (size_t i = 0; i < transforms_.size(); ++i) {
    text += i == 0 ? "\n  " : ",\n  ";
    text += std::visit([](const auto& t) { return weightloom::to_json(t); }, transforms_[i]);
  }
  return text + "]}\n";
}

}  // namespace weightloom
