#include <algorithm>
#include <string_view>
#include <utility>

#include <fmt/format.h>

#include "weightloom/base/glob.h"
#include "weightloom/codec/cast.h"
#include "weightloom/mapping/companions.h"
#include "weightloom/plan/cast_rules_internal.h"
#include "weightloom/plan/selection.h"

namespace weightloom {
namespace {

std::string message_of(const std::vector<std::string>& changed) {
  if (changed.empty()) {
    return fmt::format(
        "{} records a cast: the files' headers are the original's again, the values need not be",
        kProvenanceName);
  }
  const size_t others = changed.size() - 1;
  return fmt::format(
      "'{}'{} another dtype than in the original: the files are not made again as they were",
      changed.front(), others == 0 ? " has" : fmt::format(" and {} more have", others));
}

}  // namespace

bool is_kept(const CastRule& cast, const std::string& name) {
  return std::ranges::any_of(cast.keep,
                             [&](const std::string& glob) { return glob_matches(glob, name); });
}

Casting::Casting(std::vector<CastRule> casts, const Mapping& mapping,
                 std::span<const NamedLayout> targets)
    : casts_(std::move(casts)), rules_(mapping), companions_(mapping.companions()) {
  if (casts_.empty()) return;
  for (const NamedLayout& target : targets) before_.emplace(target.name, target.dtype);
}

bool Casting::is_scale_of_quantised(const std::string& name) const {
  return std::ranges::any_of(companion_owners(name, companions_), [&](const std::string& owner) {
    const auto found = before_.find(owner);
    return found != before_.end() && !is_castable(found->second);
  });
}

DType Casting::dtype_of(const NamedLayout& target) {
  DType dtype = target.dtype;
  if (casts_.empty() || !is_castable(dtype) || is_scale_of_quantised(target.name)) return dtype;
  for (const CastRule& cast : casts_) {
    if (!is_kept(cast, target.name)) dtype = rules_.dtype_of(target.name, cast.dtype);
  }
  return dtype;
}

ChangedDTypes changed_dtypes(std::span<const NamedLayout> targets, std::span<const DType> recorded,
                             const Provenance& record) {
  std::vector<std::string> changed;
  for (size_t i = 0; i < targets.size(); ++i) {
    if (targets[i].dtype != recorded[i]) changed.push_back(targets[i].name);
  }
  if (changed.empty() && record.casts.empty()) return {};
  return {!changed.empty(),
          Finding{Severity::report, "dtype_changed", changed.empty() ? "" : changed.front(), "",
                  message_of(changed)}};
}

}  // namespace weightloom
