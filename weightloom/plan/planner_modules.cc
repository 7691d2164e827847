// What modules are called in the output: lists in config.json name them.
#include <string_view>
#include <utility>

#include "weightloom/plan/planner_internal.h"

namespace weightloom {
namespace {

/// "a.b" of "a.b.weight".
std::string module_of(std::string_view name) {
  const auto dot = name.rfind('.');
  return std::string(dot == name.npos ? name : name.substr(0, dot));
}

/// The source that a target begins with; kPad if it has none.
SourceId first_source(const ProgramTarget& target) {
  return target.regions.empty() ? kPad : target.regions.front().source;
}

}  // namespace

/// Of every module of the source whose tensors have other names now: what it is called.
void Planner::rename_modules() {
  if (!converts() || result_.config.dequantised || !facts_.config.has("quantization_config")) {
    return;
  }
  const auto stored = result_.program.sources();
  for (const ProgramTarget& target : result_.program.targets()) {
    const SourceId source = first_source(target);
    if (source == kPad || stored[static_cast<size_t>(source)].is_computed()) continue;
    std::string from = module_of(stored[static_cast<size_t>(source)].name);
    std::string to = module_of(target.name);
    result_.config.modules.emplace(std::move(from), std::move(to));
  }
}

std::string renamed_module(const ConfigChanges& changes, std::string_view module) {
  std::string name(module);
  if (const auto same = changes.modules.find(name); same != changes.modules.end()) {
    return same->second;
  }
  const auto below = changes.modules.lower_bound(name + ".");
  if (below == changes.modules.end() || !below->first.starts_with(name + ".")) return name;
  const std::string_view rest = std::string_view(below->first).substr(name.size());
  const std::string_view target = below->second;
  if (!target.ends_with(rest)) return name;
  return std::string(target.substr(0, target.size() - rest.size()));
}

}  // namespace weightloom
