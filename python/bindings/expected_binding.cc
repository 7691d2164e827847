#include <optional>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include <nanobind/nanobind.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include "bind.h"
#include "weightloom/base/error.h"
#include "weightloom/plan/expected.h"

namespace nb = nanobind;

namespace weightloom::python {
namespace {

using Wanted = std::tuple<std::string, std::optional<std::string>, std::optional<Shape>>;

ExpectedTensor expected_tensor(const Wanted& wanted) {
  const auto& [name, dtype, shape] = wanted;
  ExpectedTensor tensor{name, std::nullopt, shape};
  if (!dtype) return tensor;
  tensor.dtype = parse_dtype(*dtype);
  if (tensor.dtype) return tensor;
  throw Error(ErrorCode::usage,
              "expected tensor '" + name + "': safetensors has no dtype '" + *dtype + "'");
}

void make_expected(Expected* self, const std::vector<Wanted>& wanted) {
  Expected expected;
  for (const Wanted& tensor : wanted) expected.tensors.push_back(expected_tensor(tensor));
  new (self) Expected(std::move(expected));
}

Expected read(const std::string& path) {
  const nb::gil_scoped_release released;
  return read_expected(system_calls(), path);
}

}  // namespace

void bind_expected(nb::module_& module) {
  nb::class_<Expected>(module, "Expected", "The tensors that a runtime has places for.")
      .def("__init__", &make_expected, nb::arg("tensors"),
           "Of (name, dtype or None, shape or None).")
      .def_rw("base_model_prefix", &Expected::base_model_prefix, nb::arg().none(),
              "Put on or taken off where that leads to an expected name; None: the class's own.")
      .def_rw("may_miss", &Expected::may_miss, "A tensor that nothing makes is but reported.")
      .def_rw("may_mismatch", &Expected::may_mismatch,
              "A tensor of another shape is left out, and reported.")
      .def_rw("cast", &Expected::cast, "Tensors get the expected dtypes, where they are castable.");
  module.def("read_expected", &read, nb::arg("path"),
             "From a JSON file or a checkpoint's headers.");
}

}  // namespace weightloom::python
