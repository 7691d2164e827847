// Renames that the caller gives on top of a mapping (`--rename 'REGEX=TEXT'`): renamings of the
// mapping language, run on the source's names before anything else.
// Thread safety: values, pure functions.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "weightloom/base/error.h"
#include "weightloom/base/export.h"
#include "weightloom/mapping/mapping.h"

namespace weightloom WEIGHTLOOM_EXPORT {

/// A source pattern, and the text that takes the place of its leftmost match; "" removes it.
using Rename = std::pair<std::string, std::string>;

/// Reads "REGEX=TEXT", split at the first '=' that is not escaped and stands in no class and no
/// group, so that look-arounds need no escape.
/// Errors: usage if there is no such '=', REGEX is empty, or either is no pattern of the mapping
/// language.
Rename parse_rename(std::string_view text);

/// The renames as a mapping called `name`, in their order.
/// Errors: mapping, as Mapping.
Mapping mapping_of(const std::vector<Rename>& renames, const std::string& name);

/// `mapping` with the renames before its rules; nothing if it does not run renamings first.
std::optional<Mapping> with_renames(const std::vector<Rename>& renames, const Mapping& mapping);

/// What renames made of a list of names.
struct RenamedNames {
  /// names[i] is what the i-th name became; nothing for one that lost its new name to another.
  std::vector<std::optional<std::string>> names;
  std::vector<Finding> findings;  ///< rename_unmatched, duplicate_target
};

/// Runs the renames, each on the result of the one before. Found as errors: a rename that matches
/// nothing, and two names that become one.
/// Errors: mapping.
RenamedNames apply_renames(const std::vector<Rename>& renames,
                           const std::vector<std::string_view>& names, int threads);

}  // namespace weightloom
