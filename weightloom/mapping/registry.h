// The registry of mappings, as a value: the shipped ones and the caller's.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "weightloom/base/export.h"
#include "weightloom/mapping/mapping.h"
#include "weightloom/mapping/model_catalog.h"

namespace weightloom WEIGHTLOOM_EXPORT {

/// Mappings by name and alias, model types that need none, and operations.
class Registry {
 public:
  /// An empty registry.
  Registry() = default;
  /// What is shipped in mappings/: parsed from data embedded in the library.
  static Registry built_in();

  /// By name or alias: a class name or a model_type. Null if unknown.
  const Mapping* find(std::string_view name) const noexcept;
  /// The mapping of a model: that of its class, else that of its model_type; null if neither is
  /// known. Source: the specification's look-up rule.
  const Mapping* find_for(std::string_view architecture,
                          std::string_view model_type) const noexcept;
  /// As find_for, among what add() brought after the shipped ones.
  const Mapping* find_registered(std::string_view architecture,
                                 std::string_view model_type) const noexcept;
  /// Old names that every model may have, whatever its mapping (LayerNorm.gamma, weight_g); empty
  /// if there is no mapping of the name "legacy".
  std::span<const WeightTransform> legacy() const noexcept;
  /// True for a model type whose whole model tree needs no transform (mappings/plain.json).
  bool is_plain(std::string_view model_type) const noexcept;
  /// How many model types need no transform.
  int64_t plain_count() const noexcept { return static_cast<int64_t>(plain_.size()); }
  /// Names of the mappings, sorted, without aliases.
  std::vector<std::string> names() const;
  /// Names and aliases close to `name` in spelling, best first, at most `most`.
  std::vector<std::string> similar(std::string_view name, int most = 3) const;

  /// Adds a mapping under its name and aliases. Overwriting an alias of another mapping takes that
  /// alias alone; overwriting a mapping's own name drops it with its aliases.
  /// Errors: mapping if a name is taken and not `overwrite`.
  void add(Mapping mapping, bool overwrite = false);
  /// Adds transforms for a model_type or a class name.
  /// Errors: as add, and those of Mapping.
  void register_checkpoint_conversion_mapping(std::string name,
                                              std::vector<WeightTransform> transforms,
                                              bool overwrite = false) {
    add(Mapping(std::move(name), std::move(transforms)), overwrite);
  }
  /// Adds an operation that mapping files and records may name.
  /// Errors: mapping if the name is taken.
  void add_operation(std::string name, OperationMaker maker) {
    operations_.add(std::move(name), std::move(maker));
  }
  /// What mapping files and records that come with this registry may name.
  const OperationMakers& operations() const noexcept { return operations_; }
  /// What is known of the classes of models.
  const ModelCatalog& models() const noexcept { return models_; }
  /// Another catalogue in place of it.
  void set_models(ModelCatalog models) { models_ = std::move(models); }
  /// Errors: format. `{"format": "weightloom.plain/1", "model_types": ["bert", …]}`.
  void add_plain(std::string_view json, std::string_view file);

 private:
  std::map<std::string, Mapping, std::less<>> mappings_;
  std::map<std::string, std::string, std::less<>> aliases_;
  std::set<std::string, std::less<>> plain_;
  std::set<std::string, std::less<>> shipped_;  // names and aliases; add() takes them off
  ModelCatalog models_;
  OperationMakers operations_ = OperationMakers::built_in();
};

}  // namespace weightloom
