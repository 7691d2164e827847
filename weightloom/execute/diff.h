// Diff: tensor by tensor, how two checkpoints differ, in number too.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "weightloom/base/dtype.h"
#include "weightloom/base/error.h"
#include "weightloom/base/export.h"
#include "weightloom/base/shape.h"
#include "weightloom/base/syscalls.h"
#include "weightloom/execute/progress.h"
#include "weightloom/execute/value_difference.h"
#include "weightloom/mapping/registry.h"
#include "weightloom/plan/selection.h"
#include "weightloom/safetensors/checkpoint.h"

namespace weightloom WEIGHTLOOM_EXPORT {

/// What one side holds under a name.
struct TensorKind {
  DType dtype = DType::F32;  ///< of each element
  Shape shape;               ///< row-major

  friend bool operator==(const TensorKind&, const TensorKind&) = default;
};

/// How a tensor differs. `code`, the first of these that holds:
///   only_in_a, only_in_b   the other side has no such name
///   shape                  values are not compared
///   dtype                  values are compared as numbers; they may be equal
///   values                 some values differ
///   bits                   values are equal, their bits are not: signed zeros, NaNs, or a dtype
///                          that has no numbers (F4, F6, C64)
struct TensorDifference {
  std::string tensor;                     ///< its name in A's layout
  std::string code;                       ///< one of the words above
  std::string message;                    ///< a whole sentence with numbers
  std::optional<TensorKind> a;            ///< nothing: not there
  std::optional<TensorKind> b;            ///< nothing: not there
  std::optional<ValueDifference> values;  ///< where values were compared
};

/// What a diff found.
struct DiffReport {
  bool equal = true;                          ///< no differences
  int64_t tensors = 0;                        ///< whose values were compared
  int64_t bytes = 0;                          ///< of these tensors in B
  std::vector<TensorDifference> differences;  ///< by tensor
  std::vector<Finding> findings;              ///< of bringing B to A's layout
};

/// Compares A with B as it is; with `selection.from`, `.to` or a mapping named in it, with B
/// brought to A's layout, as verify_equal. Only tensors that include and exclude let pass are
/// compared. Reads both once, within the budget, on `run.threads` threads; the result does not
/// depend on it. A sharded folder can be B only. Errors: unsupported if A is one; plan if B cannot
/// be brought there; io, cancelled.
DiffReport diff(const Syscalls& calls, const Checkpoint& a, const Checkpoint& b,
                const Selection& selection, const Registry& registry, const RunOptions& run);

/// An element's place in a tensor, outermost dim first: index 7 of [2, 5] is [1, 2].
Shape coordinates_of(int64_t index, const Shape& shape);

}  // namespace weightloom
