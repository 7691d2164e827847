// A model and its sub-models, as its config.json describes them, and what follows from the tree:
// the rules of the whole model, each sub-model's in its scope; the names it has; what is tied.
//
// Source: the specification's depth-first walk (`get_model_conversion_mapping`).
// Thread safety: immutable values, pure functions.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "weightloom/base/export.h"
#include "weightloom/mapping/model_catalog.h"
#include "weightloom/mapping/model_config.h"
#include "weightloom/mapping/registry.h"
#include "weightloom/mapping/runtime_names.h"
#include "weightloom/mapping/tied_weights.h"

namespace weightloom WEIGHTLOOM_EXPORT {

/// A model of the tree.
struct ModelNode {
  std::string path;                         ///< from the root; "" for the root
  std::string model_type;                   ///< of its config
  std::string config;                       ///< path of its config in config.json; "": the root
  std::shared_ptr<const ModelClass> model;  ///< never null
};

/// The models, each before those below it.
struct ModelTree {
  std::vector<ModelNode> nodes;      ///< root first; empty if the class is unknown
  std::vector<std::string> unknown;  ///< what of the tree is not known, in words
};

/// The tree of a class with this config.
ModelTree model_tree(const ModelCatalog& catalog, std::string_view architecture,
                     const ModelConfig& config);

/// The transforms of the whole model: those of each model by its class, else by its model_type,
/// unless a model above it has brought the same ones; below the root, in its scope.
/// The label is the root's entry in the registry, or "plain" if no model has any.
struct TreeMapping {
  Mapping mapping;    ///< without the old names that every model may have
  std::string label;  ///< for people
};
/// What the tree's models bring together.
TreeMapping mapping_of(const ModelTree& tree, const Registry& registry);

/// The names of the model's tensors, by templates; unknown if some sub-model's are.
RuntimeNames names_of(const ModelTree& tree);

/// Those of them that are buffers, not parameters: FSDP leaves them whole. Of a model that is not
/// known wholly, those of the known part.
RuntimeNames buffers_of(const ModelTree& tree);

/// The pairs of patterns that the classes of a tree may tie, names from the root.
struct TreeTies {
  std::vector<TiedPair> tied;    ///< config.json, or else the class, says that they are one
  std::vector<TiedPair> untied;  ///< it says that they are not
};
/// What is tied in a model with this config.
TreeTies tied_in(const ModelTree& tree, const ModelConfig& config);

}  // namespace weightloom
