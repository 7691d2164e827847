// LoadSpecs: targets made of the layout's tensors, and spread as their shards say.
#include <algorithm>
#include <iterator>
#include <unordered_map>
#include <utility>

#include <fmt/format.h>

#include "weightloom/base/quote.h"
#include "weightloom/mapping/spelling.h"
#include "weightloom/plan/planner_internal.h"
#include "weightloom/sharding/spec_adapter.h"

namespace weightloom {
namespace {

/// Makes the targets of specs, with all that is wrong.
class SpecTargets {
 public:
  SpecTargets(const std::vector<NamedLayout>& tensors, const ModelConfig& config)
      : tensors_(tensors), config_(config) {
    for (const NamedLayout& tensor : tensors) by_name_.emplace(tensor.name, &tensor);
  }

  void add(const LoadSpec& spec) {
    const size_t before = findings_.size();
    const std::vector<const NamedLayout*> keys = keys_of(spec);
    if (findings_.size() != before) return;
    check_dtypes(spec, keys);
    try {
      check_shapes(spec, keys);
      if (findings_.size() == before) targets_.push_back(made_of(spec, keys));
    } catch (const Error& error) {
      add_error("bad_spec", spec, error.what());
    }
  }

  std::vector<NamedLayout> targets() && { return std::move(targets_); }
  std::vector<Finding>& findings() { return findings_; }

 private:
  void add_error(std::string code, const LoadSpec& spec, std::string message) {
    findings_.push_back({Severity::error, std::move(code), spec.name(), "", std::move(message)});
  }

  std::vector<const NamedLayout*> keys_of(const LoadSpec& spec) {
    std::vector<const NamedLayout*> keys;
    for (const std::string& key : spec.global_hf_keys()) {
      const auto found = by_name_.find(key);
      if (found == by_name_.end()) {
        add_error("missing_key", spec, missing_message(spec, key));
        continue;
      }
      const auto [user, is_first] = used_.emplace(key, spec.name());
      if (!is_first) {
        add_error("key_used_twice", spec,
                  fmt::format("key {} is wanted by the LoadSpecs {} and {}", quote(key),
                              quote(user->second), quote(spec.name())));
      }
      keys.push_back(found->second);
    }
    return keys;
  }

  std::string missing_message(const LoadSpec& spec, const std::string& key) const {
    std::vector<std::string> names;
    for (const NamedLayout& tensor : tensors_) names.push_back(tensor.name);
    const std::vector<std::string> near = closest(key, names, 1);
    return fmt::format("LoadSpec {}: key {} is not among the {} tensors of the layout{}",
                       quote(spec.name()), quote(key), tensors_.size(),
                       near.empty() ? "" : fmt::format("; did you mean {}?", quote(near.front())));
  }

  void check_dtypes(const LoadSpec& spec, const std::vector<const NamedLayout*>& keys) {
    for (const NamedLayout* key : keys) {
      if (key->dtype == keys[0]->dtype) continue;
      add_error("dtype_mismatch", spec,
                fmt::format("LoadSpec {}: key {} is {}, key {} is {}: one tensor has one dtype",
                            quote(spec.name()), quote(keys[0]->name), to_string(keys[0]->dtype),
                            quote(key->name), to_string(key->dtype)));
      return;
    }
  }

  void check_shapes(const LoadSpec& spec, const std::vector<const NamedLayout*>& keys) {
    const Shape wanted = key_shape(spec, config_);
    for (const NamedLayout* key : keys) {
      if (key->layout.shape() == wanted) continue;
      add_error("spec_shape_mismatch", spec,
                fmt::format("LoadSpec {}: key {} has shape {}, but the spec, of shape {} without "
                            "padding, needs {}",
                            quote(spec.name()), quote(key->name), to_string(key->layout.shape()),
                            to_string(spec.unpadded_global_shape()), to_string(wanted)));
    }
  }

  NamedLayout made_of(const LoadSpec& spec, const std::vector<const NamedLayout*>& keys) const {
    std::vector<Layout> layouts;
    for (const NamedLayout* key : keys) layouts.push_back(key->layout);
    return {spec.name(), keys[0]->dtype, put_together(spec, layouts, config_)};
  }

  const std::vector<NamedLayout>& tensors_;
  const ModelConfig& config_;
  std::unordered_map<std::string_view, const NamedLayout*> by_name_;
  std::unordered_map<std::string_view, std::string_view> used_;  // key, and the spec that wants it
  std::vector<NamedLayout> targets_;
  std::vector<Finding> findings_;
};

bool is_of_one_rank(const LoadSpec& spec) { return spec.is_sharded() && spec.is_bound(); }

}  // namespace

std::vector<NamedLayout> Planner::apply_specs(const std::vector<NamedLayout>& tensors) {
  const ModelConfig config = this->config();
  SpecTargets made(tensors, config);
  for (const LoadSpec& spec : selection_.load_specs) made.add(spec);
  std::ranges::move(made.findings(), std::back_inserter(result_.findings));
  return std::move(made).targets();
}

/// The ranks that the specs speak of: of the mesh, or one.
MeshSet Planner::meshes_of_specs() const {
  const auto& specs = selection_.load_specs;
  const auto bound = std::ranges::find_if(specs, is_of_one_rank);
  const auto unbound = std::ranges::find_if_not(specs, &LoadSpec::is_bound);
  if (!selection_.placements.empty() || selection_.tp_plan) {
    throw Error(ErrorCode::usage,
                "LoadSpecs say how tensors are spread: --placements and "
                "--tp-plan have no say",
                "give one of --load-specs, --placements and --tp-plan");
  }
  if (bound != specs.end() && (unbound != specs.end() || selection_.meshes)) {
    throw Error(
        ErrorCode::usage,
        fmt::format("the shards of LoadSpec {} are those of one rank, and {}", quote(bound->name()),
                    unbound == specs.end() ? "a mesh is given"
                                           : fmt::format("those of {} are along axes of a mesh",
                                                         quote(unbound->name()))),
        "leave out --mesh, or write {\"dim\": …, \"axis\": …} in each shard");
  }
  if (selection_.meshes) return *selection_.meshes;
  if (unbound != specs.end()) {
    throw Error(ErrorCode::usage,
                fmt::format("the shards of LoadSpec {} are along axes, and there is no mesh",
                            quote(unbound->name())),
                "give the mesh with --mesh, as in --mesh fsdp=4,tp=2");
  }
  return one_rank();
}

Spread Planner::spread_of_specs() {
  Spread spread{meshes_of_specs(), {}, false};
  spread.is_part = std::ranges::any_of(selection_.load_specs, is_of_one_rank);
  std::unordered_map<std::string_view, const LoadSpec*> by_name;
  for (const LoadSpec& spec : selection_.load_specs) by_name.emplace(spec.name(), &spec);
  for (const ProgramTarget& target : result_.program.targets()) {
    const LoadSpec& spec = *by_name.at(target.name);
    try {
      spread.shardings.push_back(to_sharding(spec, spread.meshes));
    } catch (const Error& error) {
      add_error("bad_sharding", spec.name(), error.what());
      spread.shardings.emplace_back();
    }
  }
  return spread;
}

}  // namespace weightloom
