// The JSON form of mappings, both ways.
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "weightloom/mapping/mapping.h"
#include "weightloom/mapping/operation_internal.h"
#include "weightloom/mapping/operation_makers_internal.h"
#include "weightloom/mapping/spelling.h"
#include "weightloom/mapping/strict_json_internal.h"

namespace weightloom {
namespace {

using internal::StrictObject;
using internal::to_json_list;
using internal::to_json_string;
using nlohmann::json;

constexpr std::string_view kFormat = "weightloom.mapping/1";

[[noreturn]] void refuse_name(const std::string& where, std::string_view what,
                              const std::string& name, const std::vector<std::string>& known) {
  const auto near = closest(name, known, 1);
  throw Error(ErrorCode::mapping,
              fmt::format("{}: there is no {} '{}'{}: {}", where, what, name,
                          near.empty() ? "" : fmt::format(", did you mean '{}'?", near.front()),
                          near.empty() ? fmt::format("there are {}", fmt::join(known, ", "))
                                       : std::string("spelling counts")));
}

OperationPtr read_operation(const json& value, const std::string& where,
                            const OperationMakers& makers) {
  if (!value.is_object() || !value.contains("op") || !value["op"].is_string()) {
    throw Error(ErrorCode::mapping, fmt::format("{}: must be an object with a string 'op'", where));
  }
  const auto name = value["op"].get<std::string>();
  const OperationMaker* maker = makers.find(name);
  if (maker == nullptr) refuse_name(where, "operation", name, makers.names());
  std::vector<std::string_view> keys(maker->parameters.begin(), maker->parameters.end());
  keys.emplace_back("op");
  const OperationParameters::Json object{{value, where, ErrorCode::mapping, keys}};
  return maker->make(OperationParameters(object));
}

/// A maker's own refusal, with the place in the file before it.
OperationPtr read_operation_at(const json& value, const std::string& where,
                               const OperationMakers& makers) {
  try {
    return read_operation(value, where, makers);
  } catch (const Error& error) {
    if (std::string_view(error.what()).starts_with(where)) throw;
    throw Error(error.code(), fmt::format("{}: {}", where, error.what()));
  }
}

/// Reads transforms; operations as `makers` say.
class TransformReader {
 public:
  explicit TransformReader(const OperationMakers& makers) : makers_(makers) {}

  WeightTransform read(const json& value, const std::string& where) const {
    if (!value.is_object() || !value.contains("type") || !value["type"].is_string()) {
      throw Error(ErrorCode::mapping,
                  fmt::format("{}: must be an object with a string 'type'", where));
    }
    const auto type = value["type"].get<std::string>();
    if (type == "WeightRenaming") return read_renaming(value, where);
    if (type == "PrefixChange") return read_prefix_change(value, where);
    if (type == "GroupWeightRename") return read_group(value, where);
    if (type == "IndexOffsetWeightRename") return read_offset(value, where);
    if (type == "WeightConverter") return read_converter(value, where);
    refuse_name(where, "transform type", type,
                {"WeightRenaming", "PrefixChange", "GroupWeightRename", "IndexOffsetWeightRename",
                 "WeightConverter"});
  }

 private:
  static StrictObject object_of(const json& value, const std::string& where,
                                std::vector<std::string_view> keys) {
    keys.insert(keys.end(), {"type", "required", "scope"});
    return {value, where, ErrorCode::mapping, keys};
  }

  static bool required(const StrictObject& object) { return object.flag("required", false); }

  static std::optional<Scope> scope(const StrictObject& object) {
    if (!object.has("scope")) return std::nullopt;
    const StrictObject scope(object.at("scope"), object.where() + ": scope", ErrorCode::mapping,
                             {"prefix", "base_model_prefix"});
    return Scope{scope.text("prefix"),
                 scope.has("base_model_prefix") ? scope.text("base_model_prefix") : ""};
  }

  static WeightTransform read_renaming(const json& value, const std::string& where) {
    const auto object = object_of(value, where, {"source_patterns", "target_patterns"});
    return WeightRenaming{object.texts("source_patterns"), object.texts("target_patterns"),
                          required(object), scope(object)};
  }

  static WeightTransform read_prefix_change(const json& value, const std::string& where) {
    const auto object =
        object_of(value, where, {"prefix_to_add", "prefix_to_remove", "model_prefix"});
    const auto text = [&](const char* key) { return object.has(key) ? object.text(key) : ""; };
    return PrefixChange{text("prefix_to_add"), text("prefix_to_remove"), text("model_prefix"),
                        required(object), scope(object)};
  }

  static WeightTransform read_group(const json& value, const std::string& where) {
    const auto object = object_of(value, where, {"source_patterns", "target_patterns"});
    return GroupWeightRename{object.texts("source_patterns"), object.texts("target_patterns"),
                             required(object), scope(object)};
  }

  static WeightTransform read_offset(const json& value, const std::string& where) {
    const auto object = object_of(value, where, {"source_pattern", "target_pattern", "offset"});
    return IndexOffsetWeightRename{object.text("source_pattern"), object.text("target_pattern"),
                                   object.integer("offset"), required(object), scope(object)};
  }

  WeightTransform read_converter(const json& value, const std::string& where) const {
    const auto object =
        object_of(value, where, {"source_patterns", "target_patterns", "operations"});
    WeightConverter converter{object.texts("source_patterns"),
                              object.texts("target_patterns"),
                              {},
                              required(object),
                              scope(object)};
    converter.operations =
        internal::read_operations(object.list("operations"), where + ".operations", makers_);
    return converter;
  }

  const OperationMakers& makers_;
};

DType read_dtype(const StrictObject& object, const std::string& text) {
  const auto dtype = parse_dtype(text);
  if (!dtype) object.refuse(fmt::format("'{}' is no dtype, such as F32 or BF16", text));
  return *dtype;
}

std::vector<DtypeRule> read_dtype_rules(const StrictObject& root) {
  std::vector<DtypeRule> rules;
  for (const json& item : root.list("dtype_rules")) {
    const StrictObject object(item, fmt::format("{}: dtype_rules[{}]", root.where(), rules.size()),
                              ErrorCode::mapping, {"pattern", "dtype", "when"});
    DtypeRule rule{object.text("pattern"), read_dtype(object, object.text("dtype"))};
    if (object.has("when")) {
      for (const auto& text : object.texts("when")) rule.when.push_back(read_dtype(object, text));
    }
    rules.push_back(std::move(rule));
  }
  return rules;
}

/// A block size: a positive number, or "whole".
int64_t read_block(const StrictObject& object, const json& value) {
  const auto size = internal::to_integer(value);
  if (size && *size > 0) return *size;
  if (value.is_string() && value.get<std::string>() == "whole") return kWholeDim;
  object.refuse(
      "'block' must be a key of config.json, or a list of positive numbers and \"whole\"");
}

std::vector<CompanionRule> read_companions(const StrictObject& root) {
  std::vector<CompanionRule> rules;
  for (const json& item : root.list("companions")) {
    const StrictObject object(item, fmt::format("{}: companions[{}]", root.where(), rules.size()),
                              ErrorCode::mapping, {"suffix", "block"});
    CompanionRule rule{object.text("suffix")};
    if (rule.suffix.empty()) object.refuse("'suffix' is empty");
    if (object.at("block").is_string()) {
      rule.block_key = object.text("block");
    } else {
      for (const json& size : object.list("block")) rule.block.push_back(read_block(object, size));
    }
    rules.push_back(std::move(rule));
  }
  return rules;
}

/// What ends every transform's object.
std::string ending(const std::optional<Scope>& scope, bool required) {
  std::string text;
  if (scope) {
    text += R"(, "scope": {"prefix": )" + to_json_string(scope->prefix);
    if (!scope->base_model_prefix.empty()) {
      text += R"(, "base_model_prefix": )" + to_json_string(scope->base_model_prefix);
    }
    text += "}";
  }
  return required ? text + R"(, "required": true)" : text;
}

template <typename Transform>
std::string patterns_json(const Transform& t) {
  return fmt::format(R"("source_patterns": {}, "target_patterns": {}{})",
                     to_json_list(t.source_patterns), to_json_list(t.target_patterns),
                     ending(t.scope, t.required));
}

std::string body(const WeightRenaming& t) { return patterns_json(t); }

std::string body(const PrefixChange& t) {
  const bool adds = !t.prefix_to_add.empty();
  const std::string model =
      t.model_prefix.empty() ? "" : R"(, "model_prefix": )" + to_json_string(t.model_prefix);
  return fmt::format(R"("prefix_to_{}": {}{}{})", adds ? "add" : "remove",
                     to_json_string(adds ? t.prefix_to_add : t.prefix_to_remove), model,
                     ending(t.scope, t.required));
}

std::string body(const GroupWeightRename& t) { return patterns_json(t); }

std::string body(const IndexOffsetWeightRename& t) {
  return fmt::format(R"("source_pattern": {}, "target_pattern": {}, "offset": {}{})",
                     to_json_string(t.source_pattern), to_json_string(t.target_pattern), t.offset,
                     ending(t.scope, t.required));
}

std::string body(const WeightConverter& t) {
  std::vector<std::string> operations;
  for (const auto& operation : t.operations) operations.push_back(operation->to_json());
  return fmt::format(R"({}, "operations": [{}])", patterns_json(t), fmt::join(operations, ", "));
}

std::string to_json(const WeightTransform& transform) {
  return fmt::format(R"({{"type": "{}", {}}})", type_name(transform),
                     std::visit([](const auto& t) { return body(t); }, transform));
}

std::string to_json(const DtypeRule& rule) {
  std::vector<std::string> when;
  for (const DType dtype : rule.when) when.emplace_back(to_string(dtype));
  return fmt::format(R"({{"pattern": {}, "dtype": "{}"{}}})", to_json_string(rule.pattern),
                     to_string(rule.dtype),
                     when.empty() ? "" : fmt::format(R"(, "when": {})", to_json_list(when)));
}

std::string to_json(const CompanionRule& rule) {
  std::vector<std::string> sizes;
  for (const int64_t size : rule.block) {
    sizes.push_back(size == kWholeDim ? R"("whole")" : std::to_string(size));
  }
  return fmt::format(R"({{"suffix": {}, "block": {}}})", to_json_string(rule.suffix),
                     rule.block_key.empty() ? fmt::format("[{}]", fmt::join(sizes, ", "))
                                            : to_json_string(rule.block_key));
}

template <typename Rule>
std::string list_json(std::string_view key, const std::vector<Rule>& rules) {
  if (rules.empty()) return "";
  std::vector<std::string> texts;
  for (const Rule& rule : rules) texts.push_back(to_json(rule));
  return fmt::format(R"(, "{}": [{}])", key, fmt::join(texts, ", "));
}

}  // namespace

std::vector<OperationPtr> internal::read_operations(const json& list, const std::string& where,
                                                    const OperationMakers& makers) {
  std::vector<OperationPtr> operations;
  for (size_t i = 0; i < list.size(); ++i) {
    operations.push_back(read_operation_at(list[i], fmt::format("{}[{}]", where, i), makers));
  }
  return operations;
}

Mapping Mapping::parse(std::string_view json_text, std::string_view file,
                       const OperationMakers& operations) {
  const json root = internal::parse_json_object(json_text, file, ErrorCode::mapping);
  const StrictObject object(
      root, std::string(file), ErrorCode::mapping,
      {"format", "name", "aliases", "dtype_rules", "companions", "renames_first", "transforms"});
  if (object.text("format") != kFormat) {
    object.refuse(
        fmt::format("format is '{}', but needs to be '{}'", object.text("format"), kFormat));
  }
  const TransformReader reader(operations);
  std::vector<WeightTransform> transforms;
  const json& list = object.list("transforms");
  for (size_t i = 0; i < list.size(); ++i) {
    transforms.push_back(reader.read(list[i], fmt::format("{}: transforms[{}]", file, i)));
  }
  MappingRules rules;
  if (object.has("aliases")) rules.aliases = object.texts("aliases");
  if (object.has("dtype_rules")) rules.dtype_rules = read_dtype_rules(object);
  if (object.has("companions")) rules.companions = read_companions(object);
  try {
    Mapping mapping(object.text("name"), std::move(transforms), std::move(rules));
    if (mapping.name_.empty()) object.refuse("'name' is empty");
    mapping.renames_first_ = object.flag("renames_first", true);
    return mapping;
  } catch (const Error& error) {
    if (std::string_view(error.what()).starts_with(file)) throw;
    throw Error(error.code(), fmt::format("{}: {}", file, error.what()));
  }
}

std::string Mapping::to_json() const {
  std::string text = fmt::format(R"({{"format": "{}", "name": {})", kFormat, to_json_string(name_));
  if (!aliases().empty()) text += R"(, "aliases": )" + to_json_list(aliases());
  text += list_json("dtype_rules", dtype_rules()) + list_json("companions", companions());
  if (!renames_first_) text += R"(, "renames_first": false)";
  text += R"(, "transforms": [)";
  for (size_t i = 0; i < transforms_.size(); ++i) {
    text += (i == 0 ? "\n  " : ",\n  ") + weightloom::to_json(transforms_[i]);
  }
  return text + "]}\n";
}

}  // namespace weightloom
