// Tied tensors that a checkpoint stores twice: whether their values are one, and a conversion
// without the second of those that are.
// Thread safety: pure functions but for reading files.
#pragma once

#include <vector>

#include "weightloom/base/error.h"
#include "weightloom/base/export.h"
#include "weightloom/base/syscalls.h"
#include "weightloom/execute/progress.h"
#include "weightloom/plan/conversion.h"

namespace weightloom WEIGHTLOOM_EXPORT {

/// The pairs of `conversion.tied_but_stored`, by what their values say.
struct TiedValues {
  std::vector<TiedName> equal;      ///< of one dtype and shape, and equal bit for bit
  std::vector<TiedName> different;  ///< config.json is wrong about these
};

/// Reads both targets of each pair, a tile at a time; nothing is kept.
/// Errors: io, not_found, checkpoint, cancelled.
TiedValues compare_tied(const Syscalls& calls, const Conversion& conversion, const RunOptions& run);

/// A report `tied_values_differ` for each pair: config.json says that the two are one, the values
/// say that they are not, and the values win.
std::vector<Finding> tied_findings(const std::vector<TiedName>& different);

/// The conversion without the first target of each pair that is equal, if a load restores it from
/// the names that are left (pairs of whole names, not those that patterns are written out to). Its
/// output has no record of the original files, since these hold more. Reports what differs.
/// Errors: as compare_tied.
Conversion without_equal_ties(const Syscalls& calls, Conversion conversion, const RunOptions& run);

}  // namespace weightloom
