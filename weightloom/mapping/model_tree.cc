#include "weightloom/mapping/model_tree.h"

#include <algorithm>
#include <map>

#include <fmt/format.h>

#include "weightloom/base/error.h"

namespace weightloom {
namespace {

std::string joined(const std::string& path, const std::string& below) {
  if (path.empty() || below.empty()) return path + below;
  return path + "." + below;
}

constexpr auto kDeepestPath = 64;  // components; real models have fewer than 10

/// A pattern of names from a path on. Patterns of ties begin at the beginning in any case.
std::string below(const std::string& path, const std::string& pattern) {
  return joined(path, pattern.starts_with('^') ? pattern.substr(1) : pattern);
}

/// Builds the tree, depth first.
class TreeBuilder {
 public:
  TreeBuilder(const ModelCatalog& catalog, const ModelConfig& config)
      : catalog_(catalog), config_(config) {}

  ModelTree build(std::string_view architecture) && {
    const auto root = catalog_.find(architecture);
    if (!root) return {};
    add({"", config_.model_type().empty() ? root->model_type : config_.model_type(), "", root});
    return std::move(tree_);
  }

 private:
  void add(ModelNode node) {
    const auto place = static_cast<std::ptrdiff_t>(tree_.nodes.size());
    const std::shared_ptr<const ModelClass> model = node.model;
    tree_.nodes.push_back(std::move(node));
    if (!model->tree_known) {
      tree_.unknown.push_back(fmt::format("the sub-models of {}", model->name));
    }
    for (const Submodel& submodel : model->submodels) {
      const ModelNode parent = tree_.nodes[static_cast<size_t>(place)];
      add_below(parent, submodel);
    }
  }

  void add_below(const ModelNode& parent, const Submodel& submodel) {
    ModelNode node;
    node.path = joined(parent.path, submodel.path);
    node.config = joined(parent.config, submodel.config);
    if (!submodel.config.empty() && config_.is_null(node.config)) return;
    if (submodel.auto_class.empty()) {
      node.model = catalog_.find(submodel.class_name);
      node.model_type = type_of(parent, submodel, node);
    } else {
      choose_class(parent, submodel, node);
    }
    if (!node.model) {
      tree_.unknown.push_back(
          fmt::format("the sub-model '{}' (model_type '{}')", node.path, node.model_type));
      return;
    }
    check_depth(node);
    add(std::move(node));
  }

  /// The model_type of a sub-model of a given class: that of its own config, if it has one.
  std::string type_of(const ModelNode& parent, const Submodel& submodel,
                      const ModelNode& node) const {
    if (!submodel.config.empty()) {
      if (auto said = config_.text_at(joined(node.config, "model_type"))) return *said;
    }
    if (!submodel.model_type.empty()) return submodel.model_type;
    if (submodel.config.empty()) return parent.model_type;
    return node.model ? node.model->model_type : "";
  }

  /// The class that the auto class has for the model_type of its config.
  void choose_class(const ModelNode& parent, const Submodel& submodel, ModelNode& node) const {
    node.model_type = auto_type_of(parent, submodel, node);
    auto class_name = catalog_.class_for(submodel.auto_class, node.model_type);
    if (!class_name && submodel.config.empty()) {
      node.model_type = submodel.model_type;
      class_name = catalog_.class_for(submodel.auto_class, node.model_type);
    }
    if (class_name) node.model = catalog_.find(*class_name);
    if (node.model) take_text_config(node);
  }

  /// The model_type that its own config says; of a sub-model with its parent's config, the
  /// parent's, unless the parent makes it a config of another type.
  std::string auto_type_of(const ModelNode& parent, const Submodel& submodel,
                           const ModelNode& node) const {
    if (!submodel.config.empty()) {
      return config_.text_at(joined(node.config, "model_type")).value_or(submodel.model_type);
    }
    return submodel.model_type == parent.model->model_type ? parent.model_type
                                                           : submodel.model_type;
  }

  /// An auto class may take the text model of a composite config.
  void take_text_config(ModelNode& node) const {
    const std::string text_config = joined(node.config, "text_config");
    const std::string& own = node.model->model_type;
    if (own == node.model_type || config_.text_at(joined(text_config, "model_type")) != own) return;
    node.model_type = own;
    node.config = text_config;
  }

  static void check_depth(const ModelNode& node) {
    if (std::ranges::count(node.path, '.') <= kDeepestPath) return;
    throw Error(ErrorCode::format, fmt::format("the catalogue's {} holds itself at '{}'",
                                               node.model->name, node.path));
  }

  const ModelCatalog& catalog_;
  const ModelConfig& config_;
  ModelTree tree_;
};

/// Under which names' rules some path above has been already.
class Seen {
 public:
  bool above(const std::string& name, const std::string& path) const {
    const auto found = paths_.find(name);
    return found != paths_.end() &&
           std::ranges::any_of(found->second, [&](const std::string& other) {
             return other.empty() || path.starts_with(other + ".");
           });
  }
  void add(const std::string& name, const std::string& path) { paths_[name].push_back(path); }

 private:
  std::map<std::string, std::vector<std::string>> paths_;
};

/// The path of a sub-model as its scope: without the prefix of the base model.
std::string scope_of(const std::string& path, const std::string& base_model_prefix) {
  std::string scope = path;
  if (scope.starts_with(base_model_prefix)) scope.erase(0, base_model_prefix.size());
  if (scope.starts_with(".")) scope.erase(0, 1);
  return scope;
}

/// The entry of the registry that a model brings; null if none, or if one above has brought it.
const Mapping* brought_by(const ModelNode& node, const Registry& registry, Seen& seen) {
  const std::string& class_name = node.model->name;
  if (seen.above(class_name, node.path)) return nullptr;
  const Mapping* mapping = registry.find(class_name);
  if (mapping == nullptr) {
    if (seen.above(node.model_type, node.path)) return nullptr;
    mapping = registry.find(node.model_type);
    if (mapping != nullptr) seen.add(node.model_type, node.path);
  }
  if (mapping != nullptr) seen.add(class_name, node.path);
  return mapping;
}

void add_dtype_rules(const ModelClass& model, std::vector<DtypeRule>& rules) {
  for (const std::string& pattern : model.keep_in_fp32) {
    rules.push_back({pattern, DType::F32, {DType::F16}});
  }
  for (const std::string& pattern : model.keep_in_fp32_strict) {
    rules.push_back({pattern, DType::F32, {DType::F16, DType::BF16}});
  }
}

template <typename T>
void append(std::vector<T>& to, const std::vector<T>& from) {
  to.insert(to.end(), from.begin(), from.end());
}

RuntimeNames names_like(const ModelTree& tree, std::vector<std::string> ModelClass::* list) {
  if (tree.nodes.empty()) return {};
  std::vector<std::string> templates;
  for (const ModelNode& node : tree.nodes) {
    for (const std::string& name : (*node.model).*list) {
      templates.push_back(template_of(joined(node.path, name)));
    }
  }
  return RuntimeNames::like(std::move(templates), tree.nodes.front().model->base_model_prefix);
}

}  // namespace

ModelTree model_tree(const ModelCatalog& catalog, std::string_view architecture,
                     const ModelConfig& config) {
  return TreeBuilder(catalog, config).build(architecture);
}

TreeMapping mapping_of(const ModelTree& tree, const Registry& registry) {
  TreeMapping result{{}, "plain"};
  if (tree.nodes.empty()) return result;
  const std::string& prefix = tree.nodes.front().model->base_model_prefix;
  Seen seen;
  std::vector<WeightTransform> transforms;
  MappingRules rules;
  for (const ModelNode& node : tree.nodes) {
    add_dtype_rules(*node.model, rules.dtype_rules);
    const Mapping* brought = brought_by(node, registry, seen);
    if (brought == nullptr) continue;
    if (result.label == "plain") result.label = brought->name();
    append(rules.dtype_rules, brought->dtype_rules());
    append(rules.companions, brought->companions());
    for (const WeightTransform& transform : brought->transforms()) {
      transforms.push_back(node.path.empty()
                               ? transform
                               : with_scope(transform, {scope_of(node.path, prefix), prefix}));
    }
  }
  result.mapping = Mapping(result.label, std::move(transforms), std::move(rules));
  return result;
}

RuntimeNames names_of(const ModelTree& tree) {
  if (!tree.unknown.empty()) return {};
  return names_like(tree, &ModelClass::names);
}

RuntimeNames buffers_of(const ModelTree& tree) { return names_like(tree, &ModelClass::buffers); }

TreeTies tied_in(const ModelTree& tree, const ModelConfig& config) {
  TreeTies ties;
  for (const ModelNode& node : tree.nodes) {
    const auto said = config.flag_at(joined(node.config, "tie_word_embeddings"));
    const bool is_tied = said.value_or(node.model->tie_word_embeddings);
    for (const auto& [target, source] : node.model->tied) {
      (is_tied ? ties.tied : ties.untied)
          .emplace_back(below(node.path, target), below(node.path, source));
    }
  }
  return ties;
}

}  // namespace weightloom
