// The methods of Plan that run it, one function per source file.
#pragma once

#include <nanobind/nanobind.h>

#include "plan.h"

namespace weightloom::python {

/// load, load_into: into memory, of its own or the caller's.
void bind_loads(nanobind::class_<Plan>& plan);
/// stream: tensor by tensor; Stream.
void bind_streams(nanobind::module_& module, nanobind::class_<Plan>& plan);
/// convert: into a folder or a file; its report.
void bind_converts(nanobind::module_& module, nanobind::class_<Plan>& plan);

}  // namespace weightloom::python
