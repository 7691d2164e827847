#include <utility>

#include "weightloom/mapping/renaming_chain_internal.h"

namespace weightloom {

RenamingChain::RenamingChain(const Mapping& mapping) {
  for (size_t i = 0; i < mapping.transforms().size(); ++i) {
    const WeightTransform& transform = mapping.transforms()[i];
    const TransformForm form = form_of(transform);
    if (form.converts) continue;
    Step step{i, TransformMatcher(transform, Pattern::Use::search), std::nullopt, form.guarded,
              !form.guarded};
    if (!mapping.renames_first()) {
      step.forward.emplace(reversed(transform), Pattern::Use::search);
    }
    steps_.push_back(std::move(step));
  }
}

std::optional<std::string> RenamingChain::apply(Step& step, std::string_view name) {
  return step.forward ? step.matcher.undo(name, *step.forward) : step.matcher.rename(name);
}

/// True if source 0 of a group matches the name as it comes to it.
bool RenamingChain::guard_matches(size_t step, std::string_view name) {
  std::string renamed(name);
  for (size_t i = 0; i < step; ++i) {
    if (!steps_[i].active) continue;
    if (auto next = apply(steps_[i], renamed)) renamed = std::move(*next);
  }
  const auto match = steps_[step].matcher.match(renamed);
  return match && match->source == 0;
}

void RenamingChain::decide_guards(size_t count,
                                  const std::function<std::string_view(size_t)>& name_of) {
  for (size_t step = 0; step < steps_.size(); ++step) {
    if (!steps_[step].guarded) continue;
    steps_[step].active = false;
    for (size_t i = 0; i < count && !steps_[step].active; ++i) {
      steps_[step].active = guard_matches(step, name_of(i));
    }
  }
}

void RenamingChain::take_guards(const RenamingChain& other) {
  for (size_t i = 0; i < steps_.size(); ++i) steps_[i].active = other.steps_[i].active;
}

RenamingChain::Renamed RenamingChain::rename(std::string name,
                                             const std::function<void(size_t)>& fired) {
  Renamed renamed{std::move(name), std::nullopt};
  for (Step& step : steps_) {
    if (!step.active) continue;
    auto next = apply(step, renamed.name);
    if (!next) continue;
    if (fired) fired(step.transform);
    renamed.last = step.transform;
    renamed.name = std::move(*next);
  }
  return renamed;
}

}  // namespace weightloom
