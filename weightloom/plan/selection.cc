#include "weightloom/plan/selection.h"

#include <algorithm>

#include "weightloom/base/glob.h"

namespace weightloom {
namespace {

bool any_matches(const std::vector<std::string>& globs, const std::string& name) {
  return std::any_of(globs.begin(), globs.end(),
                     [&](const std::string& glob) { return glob_matches(glob, name); });
}

}  // namespace

std::string_view to_string(Side side) noexcept {
  switch (side) {
    case Side::unknown:
      return "unknown";
    case Side::hub:
      return "hub";
    case Side::runtime:
      return "runtime";
  }
  __builtin_unreachable();
}

bool is_selected(const Selection& selection, const std::string& name) {
  if (any_matches(selection.exclude, name)) return false;
  return selection.include.empty() || any_matches(selection.include, name);
}

}  // namespace weightloom
