// Words close to a misspelt one, for messages. Pure functions.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "weightloom/base/export.h"

namespace weightloom WEIGHTLOOM_EXPORT {

/// Insertions, deletions and replacements of bytes that lead from `a` to `b`.
int edit_distance(std::string_view a, std::string_view b);
/// The candidates that `word` may have meant: the nearest ones, in order, at most `most`.
std::vector<std::string> closest(std::string_view word, std::span<const std::string> candidates,
                                 int most);

}  // namespace weightloom
