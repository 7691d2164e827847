// The registry of mappings, as a value: the shipped ones and the caller's.
//
// A shipped mapping is parsed when it is first asked for, once for all registries of the process;
// its names are known at once.
// Thread safety: a value; const functions may run at the same time, of copies too.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
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
#include "weightloom/mapping/quantiser.h"

namespace weightloom WEIGHTLOOM_EXPORT {

/// Mappings by name and alias, what is known of model classes, operations and quantisers.
class Registry {
 public:
  /// An empty registry.
  Registry() = default;
  /// What is shipped in mappings/, embedded in the library.
  static Registry built_in();

  /// By name or alias: a class name or a model_type. Null if unknown. Lives as long as a registry
  /// that has it.
  const Mapping* find(std::string_view name) const;
  /// The mapping of a model: that of its class, else that of its model_type; null if neither is
  /// known. Source: the specification's look-up rule.
  const Mapping* find_for(std::string_view architecture, std::string_view model_type) const;
  /// As find_for, among what was added by whomever the registry belongs to.
  const Mapping* find_registered(std::string_view architecture, std::string_view model_type) const;
  /// True if there is a mapping of that name or alias, without a look into it.
  bool contains(std::string_view name) const noexcept { return mappings_.contains(name); }
  /// True for a name or alias that was added, by whomever the registry belongs to: code of one's
  /// own for a model uses those alone. Source: the specification's look-up rule for custom code.
  bool is_user_registered(std::string_view name) const noexcept {
    return user_registered_.contains(name);
  }
  /// Old names that every model may have, whatever its mapping (LayerNorm.gamma, weight_g); empty
  /// if there is no mapping of the name "legacy".
  std::span<const WeightTransform> legacy() const;
  /// True for a model type whose AutoModel class needs no transform, nor do its sub-models, as far
  /// as the catalogue knows them.
  bool is_plain(std::string_view model_type) const;
  /// How many model types need no transform.
  int64_t plain_count() const;
  /// Names of the mappings, sorted, without aliases.
  std::vector<std::string> names() const;
  /// Names and aliases close to `name` in spelling, best first, at most `most`.
  std::vector<std::string> similar(std::string_view name, int most = 3) const;

  /// Adds a mapping under its name and aliases. Overwriting takes those names alone: what else the
  /// mapping that had them is called stays.
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
  /// Adds what a scheme does to the rules of every model whose config.json names it as its
  /// `quant_method`: rules that are found (by class, type or name) or read from a file, not those
  /// of a record, which has them in it.
  /// Errors: usage if the name is empty; mapping if it is taken and not `overwrite`.
  void add_quantiser(std::string quant_method, Quantiser quantiser, bool overwrite = false);
  /// Null if none was added. Lives as long as this registry has it.
  const Quantiser* find_quantiser(std::string_view quant_method) const;
  /// What is known of the classes of models.
  const ModelCatalog& models() const noexcept { return models_; }
  /// Another catalogue in place of it.
  void set_models(ModelCatalog models) { models_ = std::move(models); }

 private:
  class Entry;
  static Registry read_shipped();

  std::map<std::string, std::shared_ptr<const Entry>, std::less<>> mappings_;  // by name and alias
  std::set<std::string, std::less<>> user_registered_;
  std::map<std::string, Quantiser, std::less<>> quantisers_;  // by quant_method
  ModelCatalog models_;
  OperationMakers operations_ = OperationMakers::built_in();
};

}  // namespace weightloom
