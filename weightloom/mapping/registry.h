// The registry of mappings, as a value: the shipped ones and the caller's.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "weightloom/base/export.h"
#include "weightloom/mapping/mapping.h"

namespace weightloom WEIGHTLOOM_EXPORT {

class Registry {
 public:
  /// An empty registry.
  Registry() = default;
  /// What is shipped in mappings/: parsed from data embedded in the library.
  static Registry built_in();

  /// By name or alias (a model_type). Nothing if unknown.
  const Mapping* find(std::string_view name) const noexcept;
  /// True for a model type whose whole model tree needs no transform (mappings/plain.json).
  bool is_plain(std::string_view model_type) const noexcept;
  /// How many model types need no transform.
  int64_t plain_count() const noexcept { return static_cast<int64_t>(plain_.size()); }
  /// Names of the mappings, sorted, without aliases.
  std::vector<std::string> names() const;
  /// Names and aliases close to `name` in spelling, best first, at most `most`.
  std::vector<std::string> similar(std::string_view name, int most = 3) const;

  /// Adds a mapping under its name and aliases.
  /// Errors: mapping if a name is taken and not `overwrite`.
  void add(Mapping mapping, bool overwrite = false);
  /// Errors: format. `{"format": "weightloom.plain/1", "model_types": ["bert", …]}`.
  void add_plain(std::string_view json, std::string_view file);

 private:
  std::map<std::string, Mapping, std::less<>> mappings_;
  std::map<std::string, std::string, std::less<>> aliases_;
  std::set<std::string, std::less<>> plain_;
};

}  // namespace weightloom
