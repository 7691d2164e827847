// What a runtime expects: the names of its tensors, with shapes and dtypes, given from outside.
// With it a plan says what is missing, what is unexpected and what does not fit.
// Thread safety: values.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "weightloom/base/dtype.h"
#include "weightloom/base/export.h"
#include "weightloom/base/shape.h"
#include "weightloom/base/syscalls.h"

namespace weightloom WEIGHTLOOM_EXPORT {

/// A tensor that the runtime has a place for.
struct ExpectedTensor {
  std::string name;              ///< in the runtime layout
  std::optional<DType> dtype{};  ///< nothing: any
  std::optional<Shape> shape{};  ///< nothing: any
};

/// All of them, and what is to happen where they do not fit.
struct Expected {
  std::vector<ExpectedTensor> tensors;  ///< in any order, no name twice
  /// The prefix that a base model's names have in a head model, put on or taken off where that
  /// leads to an expected name; nothing: as the class in config.json has it.
  std::optional<std::string> base_model_prefix{};
  bool may_miss = false;      ///< an expected tensor that nothing makes is a report, not an error
  bool may_mismatch = false;  ///< one of another shape is left out with a report, not an error
  bool cast = false;          ///< tensors of castable dtypes get the expected ones
};

/// From a JSON file ({"name": {"dtype": "BF16", "shape": [2, 3]}, …}, either may be absent; or what
/// `weightloom plan --json` and `weightloom inspect --json` print), or from a checkpoint's headers.
/// Errors: format naming the place, io, not_found, and those of Checkpoint::open.
Expected read_expected(const Syscalls& calls, const std::string& path);

}  // namespace weightloom
