// A process group whose transport is written in Python.
#pragma once

#include <memory>

#include <nanobind/nanobind.h>

#include "weightloom/comm/process_group.h"

namespace weightloom::python {

/// `transport` has `rank`, `size` and, called from any thread:
///   exchange(outgoing, incoming)   lists of (rank, tag, torch.uint8 tensor on the message's
///                                  memory); None when all of them are done, or a Reason: the group
///                                  has ended
///   abort(reason)                  ends the group on all ranks, and gives the Reason that counts
/// where a Reason is (rank, code, message, next step). Called with the interpreter's lock; the
/// group may be used and destroyed without it.
/// Messages go with their sizes before them, so that one of another size is an error and no crash.
std::unique_ptr<ProcessGroup> python_group(const nanobind::object& transport);

}  // namespace weightloom::python
