#include <optional>
#include <string>
#include <vector>

#include <nanobind/nanobind.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/string_view.h>
#include <nanobind/stl/vector.h>

#include "bind.h"
#include "held_context.h"
#include "weightloom/layout/notation.h"
#include "weightloom/layout/operations.h"
#include "weightloom/mapping/operation.h"

namespace nb = nanobind;

namespace weightloom::python {
namespace {

Layout permuted(const Layout& layout, const std::vector<int>& order) {
  return permute(layout, order);
}
Layout concatenated(const std::vector<Layout>& parts, int dim) { return concat(parts, dim); }
Layout stacked(const std::vector<Layout>& parts, int dim) { return stack(parts, dim); }
std::vector<Layout> parts_of(const Layout& layout, int dim, const std::vector<int64_t>& sizes) {
  return split(layout, dim, sizes);
}

void bind_context(nb::module_& module) {
  nb::class_<HeldContext>(module, "OperationContext",
                          "What an operation may know besides the tensors.")
      .def_ro("targets", &HeldContext::targets, "How many target patterns there are.")
      .def_ro("target_patterns", &HeldContext::target_patterns, "Of the converter.")
      .def(
          "config",
          [](const HeldContext& context, const std::string& path) {
            return context.config.at(path);
          },
          nb::arg("path"),
          "An integer of config.json at a path of keys ('vision_config.num_heads'); None if there "
          "is none.");
}

}  // namespace

void bind_layouts(nb::module_& module) {
  bind_context(module);
  nb::class_<Layout>(module, "Layout",
                     "Where each element of a tensor comes from. Operations are NumPy's of that "
                     "name and give new layouts; nothing moves.")
      .def_static("identity", &identity, nb::arg("source"), nb::arg("shape"),
                  "The tensor itself: a source by its number.")
      .def_static("constant", &constant, nb::arg("pad_value"), nb::arg("shape"),
                  "A tensor of one small integer.")
      .def_static("concat", &concatenated, nb::arg("parts"), nb::arg("dim"),
                  "Shapes are equal but for `dim`, whose sizes add.")
      .def_static("stack", &stacked, nb::arg("parts"), nb::arg("dim"),
                  "Shapes are equal; a new dim before `dim`.")
      .def_prop_ro(
          "shape", [](const Layout& layout) { return nb::tuple(nb::cast(layout.shape())); },
          nb::sig("def shape(self) -> tuple[int, ...]"), "Sizes of the dims, outermost first.")
      .def("reshape", &reshape, nb::arg("shape"), "Of equal size.")
      .def("slice", &slice, nb::arg("dim"), nb::arg("begin"), nb::arg("end"),
           "Rows [begin, end) of a dim.")
      .def("permute", &permuted, nb::arg("order"), "Dim i of the result is dim order[i].")
      .def("transpose", &transpose, nb::arg("dim0"), nb::arg("dim1"), "Swaps two dims.")
      .def("unstack", &unstack, nb::arg("dim"), "The parts along a dim, which disappears.")
      .def("split", &parts_of, nb::arg("dim"), nb::arg("sizes"),
           "Consecutive parts of given sizes, which add up to the dim.")
      .def("interleave", &interleave, nb::arg("dim"), nb::arg("ways"), nb::arg("inverse") = false,
           "De-interleaves a dim of n * ways: out[j * n + i] = in[ways * i + j].")
      .def("pad", &pad, nb::arg("dim"), nb::arg("before"), nb::arg("after"),
           nb::arg("pad_value") = 0, "Rows of one small integer around a dim.")
      .def("__repr__", [](const Layout& layout) { return to_string(layout); });
}

}  // namespace weightloom::python
