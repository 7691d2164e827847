// The parts of weightloom._core, one function per source file.
#pragma once

#include <nanobind/nanobind.h>

namespace weightloom::python {

/// Finding; weightloom::Error becomes the exceptions of weightloom._errors.
void bind_errors(nanobind::module_& module);
/// Tensor: memory with a dtype and a shape.
void bind_tensor(nanobind::module_& module);
/// Checkpoint and TensorInfo: what stands in files, or in memory as if it did.
void bind_checkpoint(nanobind::module_& module);
/// read_box: a tensor, or a part of one.
void bind_boxes(nanobind::module_& module);
/// Expected: what a runtime has places for.
void bind_expected(nanobind::module_& module);
/// Layout, OperationContext: what operations that are written in Python work on.
void bind_layouts(nanobind::module_& module);
/// Registry: mappings by name; KeyRenamer.
void bind_registry(nanobind::module_& module);
/// Selection, verify, diff, and their reports.
void bind_verify(nanobind::module_& module);
/// Plan: a conversion, and the ways to run it.
void bind_plan(nanobind::module_& module);
/// ProcessGroup, over a transport that is written in Python.
void bind_groups(nanobind::module_& module);
/// ParallelSave: what ranks hold, saved together; after bind_groups.
void bind_parallel_saves(nanobind::module_& module);
/// Plan.only and what else concerns parts of a plan; after bind_plan.
void bind_plan_parts(nanobind::module_& module);
/// Plan.held: the parts that a rank holds as DTensors; after bind_plan.
void bind_held_parts(nanobind::module_& module);

}  // namespace weightloom::python
