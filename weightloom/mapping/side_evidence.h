// Which side of a mapping a checkpoint's names are on.
//
// Thread safety: pure functions.
#pragma once

#include <span>
#include <string_view>

#include "weightloom/mapping/mapping.h"

namespace weightloom {

/// Whether some name is one that the mapping leads from (hub), and one that it leads to (runtime).
struct SideEvidence {
  bool hub = false;
  bool runtime = false;
};

/// A rule that would put text on any name tells nothing; one that takes text off, or rewrites it,
/// does. Errors: mapping if a pattern is too costly to search in a name.
SideEvidence side_evidence(const Mapping& mapping, std::span<const std::string_view> names);

}  // namespace weightloom
