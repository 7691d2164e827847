// Holds targets against what a runtime expects. Private to the room.
#pragma once

#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "weightloom/base/error.h"
#include "weightloom/mapping/apply.h"
#include "weightloom/mapping/tied_weights.h"
#include "weightloom/plan/expected.h"
#include "weightloom/plan/mapping_choice.h"

namespace weightloom {

/// Targets that the runtime has a place for, and what is wrong with the others.
struct Fitted {
  std::vector<NamedLayout> targets;  ///< in their order, without those that no one expects
  std::vector<Finding> findings;     ///< missing, unexpected, mismatched
  std::set<SourceId> left_out;       ///< sources that nothing but targets left out would read
};

/// Finds everything at once:
///   missing     an expected tensor that is neither made nor tied to one that is; a report where
///               the model's class says that it may be, or `expected` does
///   unexpected  a target that no one expects: strict; a report where the class says that it may be
///   mismatched  a target of another shape, or of another dtype than `expected` and no cast gives
/// Names that the selection leaves out are neither missing nor unexpected.
Fitted fit_expected(std::vector<NamedLayout> targets, const Selection& selection,
                    const ModelFacts& model, std::span<const TiedName> tied);

/// The names of what is expected, sorted.
std::vector<std::string> expected_names(const Expected& expected);

}  // namespace weightloom
