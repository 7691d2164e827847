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
    const std::shared_ptr<const ModelClass> model = node.model;
    const std::string path = node.path;
    const std::string config = node.config;
    tree_.nodes.push_back(std::move(node));
    if (!model->tree_known) {
      tree_.unknown.push_back(fmt::format("the sub-models of {}", model->name));
    }
    for (const Submodel& submodel : model->submodels) add_below(path, config, submodel);
  }

  void add_below(const std::string& path, const std::string& config, const Submodel& submodel) {
    const std::string own_config = joined(config, submodel.config);
    const std::string own_path = joined(path, submodel.path);
    std::string model_type = submodel.model_type;
    std::string class_name = submodel.class_name;
    if (class_name.empty()) {
      if (const auto said = config_.text_at(joined(own_config, "model_type"))) model_type = *said;
      class_name = catalog_.class_for(submodel.auto_class, model_type).value_or("");
    }
    const auto model = class_name.empty() ? nullptr : catalog_.find(class_name);
    if (!model) {
      tree_.unknown.push_back(
          fmt::format("the sub-model '{}' (model_type '{}')", own_path, model_type));
      return;
    }
    if (model_type.empty()) model_type = model->model_type;
    if (std::ranges::count(own_path, '.') > kDeepestPath) {
      throw Error(ErrorCode::format,
                  fmt::format("the catalogue's {} holds itself at '{}'", model->name, own_path));
    }
    add({own_path, std::move(model_type), own_config, model});
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
  if (tree.nodes.empty() || !tree.unknown.empty()) return {};
  std::vector<std::string> templates;
  for (const ModelNode& node : tree.nodes) {
    for (const std::string& name : node.model->names) {
      templates.push_back(template_of(joined(node.path, name)));
    }
  }
  return RuntimeNames::like(std::move(templates), tree.nodes.front().model->base_model_prefix);
}

TreeTies tied_in(const ModelTree& tree, const ModelConfig& config) {
  TreeTies ties;
  for (const ModelNode& node : tree.nodes) {
    const auto said = config.flag_at(joined(node.config, "tie_word_embeddings"));
    const bool is_tied = said.value_or(node.model->tie_word_embeddings);
    for (const auto& [target, source] : node.model->tied) {
      (is_tied ? ties.tied : ties.untied)
          .emplace_back(joined(node.path, target), joined(node.path, source));
    }
  }
  return ties;
}

}  // namespace weightloom
