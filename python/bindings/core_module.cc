#include <nanobind/nanobind.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/string_view.h>
#include <nanobind/stl/vector.h>

#include "bind.h"
#include "weightloom/base/byte_size.h"
#include "weightloom/base/dtype.h"
#include "weightloom/execute/budget.h"
#include "weightloom/version.h"

namespace nb = nanobind;

namespace weightloom::python {
namespace {

std::vector<std::string> dtype_names() {
  std::vector<std::string> names;
  for (int i = 0; i < kDTypeCount; ++i) names.emplace_back(to_string(static_cast<DType>(i)));
  return names;
}

}  // namespace
}  // namespace weightloom::python

NB_MODULE(_core, module) {
  using namespace weightloom;
  using namespace weightloom::python;
  module.doc() = "Weightloom's C++ library. Use the package weightloom, which is documented.";
  module.attr("__version__") = std::string(version());
  module.attr("DTYPES") = dtype_names();
  module.def(
      "default_memory_budget", [] { return default_memory_budget(system_calls()); },
      "Bytes of working memory that a run takes when the caller does not say.");
  module.def("default_threads", &default_threads,
             "Threads that a run takes when the caller does not say.");
  module.def("parse_byte_size", &parse_byte_size, nb::arg("text"),
             "A number of bytes as people write it: '5GB', '256MiB', '1000'.");
  bind_errors(module);
  bind_tensor(module);
  bind_checkpoint(module);
  bind_boxes(module);
  bind_expected(module);
  bind_layouts(module);
  bind_registry(module);
  bind_plan(module);
  bind_plan_parts(module);
  bind_held_parts(module);
  bind_verify(module);
  bind_groups(module);
  bind_parallel_saves(module);
}
