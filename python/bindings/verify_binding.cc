#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <nanobind/nanobind.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/string_view.h>
#include <nanobind/stl/vector.h>

#include "bind.h"
#include "plan.h"
#include "shipped.h"
#include "watch.h"
#include "weightloom/execute/diff.h"
#include "weightloom/execute/verify.h"

namespace nb = nanobind;

namespace weightloom::python {
namespace {

/// The seam that has the files of both.
const Syscalls& calls_of(const Source& a, const Source& b) {
  if (!a.is_in_memory()) return b.calls();
  if (!b.is_in_memory()) return a.calls();
  throw Error(ErrorCode::unsupported, "both checkpoints are in memory",
              "save one of them, and compare the other with it");
}

VerifyReport verify_one(const SourcePtr& a, std::optional<int> threads, const Budget& memory_budget,
                        nb::object progress) {
  Watch watch(threads, memory_budget, std::move(progress));
  return watch.run([&] { return verify_readable(a->calls(), a->checkpoint(), watch.options()); });
}

/// Runs `compare(calls, selection, registry, options)` on two checkpoints, watched.
template <typename Compare>
auto compare_watched(const SourcePtr& a, const SourcePtr& b, const PlanRequest& request,
                     const RegistryPtr& registry, Watch& watch, const Compare& compare) {
  MemoryFiles files(calls_of(*a, *b));
  const Registry known = registry ? *registry : shipped_registry();  // others may add to it
  const Selection selection = selection_of(request, files, known.operations());
  return watch.run([&] { return compare(files.calls(), selection, known, watch.options()); });
}

VerifyReport verify_two(const SourcePtr& a, const SourcePtr& b, const PlanRequest& request,
                        const RegistryPtr& registry, std::optional<int> threads,
                        const Budget& memory_budget, nb::object progress) {
  Watch watch(threads, memory_budget, std::move(progress));
  return compare_watched(a, b, request, registry, watch,
                         [&](const Syscalls& calls, const Selection& selection,
                             const Registry& known, const RunOptions& run) {
                           return verify_equal(calls, a->checkpoint(), b->checkpoint(), selection,
                                               known, run);
                         });
}

DiffReport diff_two(const SourcePtr& a, const SourcePtr& b, const PlanRequest& request,
                    const RegistryPtr& registry, std::optional<int> threads,
                    const Budget& memory_budget, nb::object progress) {
  Watch watch(threads, memory_budget, std::move(progress));
  return compare_watched(a, b, request, registry, watch,
                         [&](const Syscalls& calls, const Selection& selection,
                             const Registry& known, const RunOptions& run) {
                           return diff(calls, a->checkpoint(), b->checkpoint(), selection, known,
                                       run);
                         });
}

std::optional<std::pair<std::string, Shape>> kind_of(const std::optional<TensorKind>& kind) {
  if (!kind) return std::nullopt;
  return std::pair(std::string(to_string(kind->dtype)), kind->shape);
}

void bind_selection(nb::module_& module) {
  nb::class_<PlanRequest>(module, "Selection", "What a caller asks of a conversion.")
      .def(nb::init<>())
      .def_rw("mapping", &PlanRequest::mapping, "'auto', 'none', a name, a path or JSON text.")
      .def_rw("from_", &PlanRequest::from, "'auto', 'hub' or 'runtime'.")
      .def_rw("to", &PlanRequest::to, "'same', 'hub' or 'runtime'.")
      .def_rw("dtype", &PlanRequest::dtype, nb::arg().none(), "A castable dtype, or None.")
      .def_rw("keep_dtype", &PlanRequest::keep_dtype, "Globs that the cast does not touch.")
      .def_rw("include", &PlanRequest::include, "Globs over target names; none: all.")
      .def_rw("exclude", &PlanRequest::exclude, "Globs; wins over include.")
      .def_rw("architecture", &PlanRequest::architecture, "The class; '': config.json's.")
      .def_rw("renames", &PlanRequest::renames, "Pairs of pattern and text, run first.")
      .def_rw("dequantize", &PlanRequest::dequantize, "Codes and scales become values.")
      .def_rw("quantize", &PlanRequest::quantize, "'keep', 'fp8-block' or 'mxfp4'.")
      .def_rw("lenient", &PlanRequest::lenient, "Let pass what no target uses.");
}

void bind_reports(nb::module_& module) {
  nb::class_<Difference>(module, "Difference", "One way in which two checkpoints differ.")
      .def_ro("tensor", &Difference::tensor, "Its name.")
      .def_ro("code", &Difference::code, "'only_in_a', 'only_in_b', 'dtype', 'shape', 'values'.")
      .def_ro("message", &Difference::message, "A whole sentence with numbers.");
  nb::class_<VerifyReport>(module, "VerifyReport", "What was found of one or two checkpoints.")
      .def_ro("equal", &VerifyReport::equal, "There are no differences.")
      .def_ro("tensors", &VerifyReport::tensors, "How many were compared, or read.")
      .def_ro("nbytes", &VerifyReport::bytes, "Their size in bytes.")
      .def_ro("has_checksums", &VerifyReport::has_checksums, "Of every tensor, compared.")
      .def_ro("differences", &VerifyReport::differences, "By tensor.")
      .def_ro("findings", &VerifyReport::findings, "Of the checkpoint, or of converting B.")
      .def("__bool__", [](const VerifyReport& report) { return report.equal; });
  nb::class_<TensorDifference>(module, "TensorDifference", "How a tensor differs.")
      .def_ro("tensor", &TensorDifference::tensor, "Its name in A's layout.")
      .def_ro("code", &TensorDifference::code, "As Difference's, or 'bits'.")
      .def_ro("message", &TensorDifference::message, "A whole sentence with numbers.")
      .def_prop_ro(
          "a", [](const TensorDifference& found) { return kind_of(found.a); },
          "dtype and shape in A; None: not there.")
      .def_prop_ro(
          "b", [](const TensorDifference& found) { return kind_of(found.b); },
          "dtype and shape in B; None: not there.");
  nb::class_<DiffReport>(module, "DiffReport", "What a diff found.")
      .def_ro("equal", &DiffReport::equal, "There are no differences.")
      .def_ro("tensors", &DiffReport::tensors, "How many had their values compared.")
      .def_ro("nbytes", &DiffReport::bytes, "Their size in B, in bytes.")
      .def_ro("differences", &DiffReport::differences, "By tensor.")
      .def_ro("findings", &DiffReport::findings, "Of bringing B to A's layout.")
      .def("__bool__", [](const DiffReport& report) { return report.equal; });
}

}  // namespace

void bind_verify(nb::module_& module) {
  bind_selection(module);
  bind_reports(module);
  module.def("verify_one", &verify_one, nb::arg("a"), nb::arg("threads").none(),
             nb::arg("memory_budget").none(), nb::arg("progress").none(),
             "Reads every byte, and compares with checksums where there are some.");
  module.def("verify_two", &verify_two, nb::arg("a"), nb::arg("b"), nb::arg("selection"),
             nb::arg("registry").none(), nb::arg("threads").none(), nb::arg("memory_budget").none(),
             nb::arg("progress").none(), "Brings B to A's layout and compares bit for bit.");
  module.def("diff", &diff_two, nb::arg("a"), nb::arg("b"), nb::arg("selection"),
             nb::arg("registry").none(), nb::arg("threads").none(), nb::arg("memory_budget").none(),
             nb::arg("progress").none(), "Tensor by tensor, how two checkpoints differ.");
}

}  // namespace weightloom::python
