#include "weightloom/plan/renames.h"

#include <utility>

#include <fmt/format.h>

#include "weightloom/layout/operations.h"
#include "weightloom/mapping/apply.h"
#include "weightloom/mapping/model_config.h"

namespace weightloom {
namespace {

/// One past the class that begins at `begin`: "[", an optional "^", a "]" that stands first for
/// itself, and all up to the next "]".
size_t class_end(std::string_view text, size_t begin) {
  size_t at = begin + 1;
  if (at < text.size() && text[at] == '^') ++at;
  if (at < text.size() && text[at] == ']') ++at;
  while (at < text.size() && text[at] != ']') at += text[at] == '\\' ? 2 : 1;
  return at + 1;
}

/// Where "REGEX=TEXT" is split; npos if nowhere.
size_t find_split(std::string_view text) {
  int depth = 0;
  for (size_t at = 0; at < text.size();) {
    const char c = text[at];
    if (c == '=' && depth == 0) return at;
    if (c == '(') ++depth;
    if (c == ')') --depth;
    at = c == '[' ? class_end(text, at) : at + (c == '\\' ? 2 : 1);
  }
  return std::string_view::npos;
}

Error wrong(std::string_view text, std::string_view fault) {
  return Error(ErrorCode::usage, fmt::format("'{}' {}", text, fault),
               "write it as 'REGEX=TEXT', such as '^module\\.=' or 'layers\\.(\\d+)=blocks.\\1'");
}

std::vector<NamedLayout> as_leaves(const std::vector<std::string_view>& names) {
  std::vector<NamedLayout> leaves;
  leaves.reserve(names.size());
  for (const std::string_view name : names) {
    // One element each: enough to tell afterwards which leaf a result is.
    leaves.push_back(
        {std::string(name), DType::U8, identity(static_cast<SourceId>(leaves.size()), Shape{1})});
  }
  return leaves;
}

}  // namespace

Rename parse_rename(std::string_view text) {
  const size_t split = find_split(text);
  if (split == std::string_view::npos) throw wrong(text, "has no '=' between pattern and text");
  Rename rename{text.substr(0, split), text.substr(split + 1)};
  if (rename.first.empty()) throw wrong(text, "has no pattern before its '='");
  try {
    mapping_of({rename}, "--rename");
  } catch (const Error& error) {
    throw wrong(text, fmt::format("is no renaming: {}", error.what()));
  }
  return rename;
}

Mapping mapping_of(const std::vector<Rename>& renames, const std::string& name) {
  std::vector<WeightTransform> transforms;
  for (const Rename& rename : renames) {
    transforms.push_back(WeightRenaming{{rename.first}, {rename.second}, false});
  }
  return Mapping(name, std::move(transforms));
}

std::optional<Mapping> with_renames(const std::vector<Rename>& renames, const Mapping& mapping) {
  if (!mapping.renames_first()) return std::nullopt;
  std::vector<WeightTransform> transforms = mapping_of(renames, mapping.name()).transforms();
  transforms.insert(transforms.end(), mapping.transforms().begin(), mapping.transforms().end());
  return Mapping(mapping.name(), std::move(transforms),
                 {mapping.aliases(), mapping.dtype_rules(), mapping.companions()});
}

RenamedNames apply_renames(const std::vector<Rename>& renames,
                           const std::vector<std::string_view>& names, int threads) {
  if (renames.empty()) return {{names.begin(), names.end()}, {}};
  MappingResult applied = apply_mapping(mapping_of(renames, "--rename"), as_leaves(names),
                                        ModelConfig(), {.threads = threads});
  RenamedNames result;
  result.names.resize(names.size());
  for (NamedLayout& tensor : applied.tensors) {
    const auto leaf = static_cast<size_t>(tensor.layout.regions().front().source);
    result.names[leaf] = std::move(tensor.name);
  }
  result.findings = std::move(applied.findings);
  for (size_t i = 0; i < renames.size(); ++i) {
    if (applied.fired[i] > 0) continue;
    result.findings.push_back(
        {Severity::error, "rename_unmatched", "", "",
         fmt::format("--rename '{}={}' matches no tensor", renames[i].first, renames[i].second)});
  }
  return result;
}

}  // namespace weightloom
