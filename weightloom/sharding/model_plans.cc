#include "weightloom/sharding/model_plans.h"

#include <algorithm>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "weightloom/base/error.h"
#include "weightloom/base/quote.h"
#include "weightloom/mapping/embedded_mappings_internal.h"
#include "weightloom/mapping/strict_json_internal.h"

namespace weightloom {
namespace {

using internal::StrictObject;
using nlohmann::json;

constexpr std::string_view kFormat = "weightloom.parallel_plans/1";
constexpr std::string_view kFileName = "parallel_plans.json";
constexpr std::string_view kEmbeddings = "embed_tokens";

StyleRules read_rules(const StrictObject& plans, const std::string& kind) {
  StyleRules rules;
  if (!plans.has(kind)) return rules;
  for (const auto& [pattern, style] : plans.at(kind).items()) {
    const std::string where = fmt::format("{}: {}: {}", plans.where(), kind, quote(pattern));
    rules.emplace(pattern, parse_style(style.is_string() ? style.get<std::string>() : "", where));
  }
  return rules;
}

template <typename Plans>
std::shared_ptr<const Plans> read_plans(const StrictObject& root, const std::string& key) {
  auto plans = std::make_shared<Plans>();
  for (const auto& [name, value] : root.at(key).items()) {
    const StrictObject entry(value, fmt::format("{}: {}", root.where(), name), ErrorCode::format,
                             {"tp", "ep"});
    plans->emplace(name, TpPlan{read_rules(entry, "tp"), read_rules(entry, "ep")});
  }
  return plans;
}

const TpPlan& no_plan() {
  static const TpPlan none;
  return none;
}

std::string joined(const std::string& path, const std::string& below) {
  return path.empty() || below.empty() ? path + below : path + "." + below;
}

bool is_at_or_below(std::string_view name, std::string_view path) {
  return name.starts_with(path) && (name.size() == path.size() || name[path.size()] == '.');
}

/// True if the class holds no base model, and so is one itself.
bool is_base_model(const ModelClass& model) {
  const std::string& prefix = model.base_model_prefix;
  if (prefix.empty()) return true;
  const auto stands_below = [&](const std::string& name) { return is_at_or_below(name, prefix); };
  return std::ranges::none_of(model.names, stands_below) &&
         std::ranges::none_of(model.submodels, stands_below, &Submodel::path);
}

bool has_embeddings(const ModelClass& model) {
  return std::ranges::find(model.names, fmt::format("{}.weight", kEmbeddings)) != model.names.end();
}

void override_with(TpPlan& plan, const TpPlan& other, const std::string& path) {
  for (const auto& [pattern, style] : other.tp)
    plan.tp.insert_or_assign(joined(path, pattern), style);
  for (const auto& [pattern, style] : other.ep)
    plan.ep.insert_or_assign(joined(path, pattern), style);
}

/// The rules of one model of the tree, without those of the models in it.
TpPlan own_plan(const ModelNode& node, const ParallelPlans& plans) {
  TpPlan plan = plans.of_class(node.model->name);
  if (!is_base_model(*node.model)) return plan;
  override_with(plan, plans.of_config(node.model_type), "");
  if (!plan.tp.empty() && has_embeddings(*node.model)) {
    plan.tp.emplace(kEmbeddings, ParallelStyle::embedding_rowwise);
  }
  return plan;
}

/// The models whose rules reach the root: each an attribute of the one that it stands in.
std::vector<const ModelNode*> contributing(const ModelTree& tree) {
  struct Outer {
    const std::string* path;
    bool contributes;
  };
  std::vector<const ModelNode*> found;
  std::vector<Outer> outers;
  for (const ModelNode& node : tree.nodes) {
    while (!outers.empty() && !outers.back().path->empty() &&
           !node.path.starts_with(*outers.back().path + ".")) {
      outers.pop_back();
    }
    const size_t begin =
        outers.empty() || outers.back().path->empty() ? 0 : outers.back().path->size() + 1;
    const bool is_attribute = node.path.find('.', begin) == std::string::npos;
    const bool contributes = is_attribute && (outers.empty() || outers.back().contributes);
    if (contributes) found.push_back(&node);
    outers.push_back({&node.path, contributes});
  }
  return found;
}

void check_known(const ModelTree& tree) {
  if (!tree.nodes.empty() && tree.unknown.empty()) return;
  const std::string what = tree.nodes.empty() ? "the class of the model" : tree.unknown.front();
  throw Error(ErrorCode::unsupported,
              fmt::format("no parallel plan is known: nothing is known of {}", what),
              "give --tp-plan FILE, or --placements FILE");
}

}  // namespace

ParallelPlans ParallelPlans::built_in() {
  static const ParallelPlans shipped = [] {
    const auto files = embedded_mappings();
    const auto found = std::ranges::find(files, kFileName, &EmbeddedFile::file);
    return found == files.end() ? ParallelPlans() : parse(found->text, found->file);
  }();
  return shipped;
}

ParallelPlans ParallelPlans::parse(std::string_view text, std::string_view file) {
  const json value = internal::parse_json_object(text, file, ErrorCode::format);
  const StrictObject root(value, std::string(file), ErrorCode::format,
                          {"format", "transformers", "configs", "classes"});
  if (root.text("format") != kFormat) {
    root.refuse(fmt::format("format is '{}', but needs to be '{}'", root.text("format"), kFormat));
  }
  ParallelPlans plans;
  plans.configs_ = read_plans<Plans>(root, "configs");
  plans.classes_ = read_plans<Plans>(root, "classes");
  return plans;
}

const TpPlan& ParallelPlans::of_config(std::string_view model_type) const {
  if (!configs_) return no_plan();
  const auto found = configs_->find(model_type);
  return found == configs_->end() ? no_plan() : found->second;
}

const TpPlan& ParallelPlans::of_class(std::string_view class_name) const {
  if (!classes_) return no_plan();
  const auto found = classes_->find(class_name);
  return found == classes_->end() ? no_plan() : found->second;
}

TpPlan tp_plan_of(const ModelTree& tree, const ParallelPlans& plans) {
  check_known(tree);
  TpPlan plan;
  for (const ModelNode* node : contributing(tree)) {
    override_with(plan, own_plan(*node, plans), node->path);
  }
  return plan;
}

}  // namespace weightloom
