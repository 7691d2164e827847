// Which side of a mapping a checkpoint's names are on.
//
// Thread safety: pure functions.
#pragma once

#include <span>
#include <string_view>

#include "weightloom/base/export.h"
#include "weightloom/mapping/mapping.h"

namespace weightloom WEIGHTLOOM_EXPORT {

/// Whether some name is one that the mapping leads from (hub), and one that it leads to (runtime).
struct SideEvidence {
  bool hub = false;      ///< of the first kind
  bool runtime = false;  ///< of the second kind
};

/// A rule that would put text on any name tells nothing; one that takes text off, or rewrites it,
/// does. Errors: mapping if a pattern is too costly to search in a name.
SideEvidence side_evidence(const Mapping& mapping, std::span<const std::string_view> names);

}  // namespace weightloom
