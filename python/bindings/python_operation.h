// A conversion operation that is written in Python, and mappings that name such operations.
#pragma once

#include <nanobind/nanobind.h>

#include "weightloom/mapping/operation.h"

namespace weightloom::python {

/// `object` has `apply(slots, context)`, `reverse()` and `to_json()`; see LayoutOperation in
/// Python. Called with the interpreter's lock; may be run and destroyed without it.
OperationPtr operation_of(nanobind::object object);

}  // namespace weightloom::python
