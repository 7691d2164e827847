#include <exception>

#include <nanobind/nanobind.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/string_view.h>
#include <nanobind/stl/vector.h>

#include "bind.h"
#include "weightloom/base/error.h"
#include "weightloom/comm/process_group.h"

namespace nb = nanobind;

namespace weightloom::python {
namespace {

void raise(const Error& error) {
  const nb::object made = nb::module_::import_("weightloom._errors")
                              .attr("error_of")(to_string(error.code()), error.what(),
                                                error.next_step(), error.findings());
  if (const auto* of_rank = dynamic_cast<const RankError*>(&error)) {
    made.attr("rank") = of_rank->rank();
  }
  PyErr_SetObject(reinterpret_cast<PyObject*>(Py_TYPE(made.ptr())), made.ptr());
}

void translate(const std::exception_ptr& thrown, void*) {
  try {
    std::rethrow_exception(thrown);
  } catch (const Error& error) {
    raise(error);
  }
}

std::string representation(const Finding& finding) {
  return "Finding(" + std::string(to_string(finding.severity)) + ", " + finding.code + ": " +
         finding.message + ")";
}

}  // namespace

void bind_errors(nb::module_& module) {
  nb::class_<Finding>(module, "Finding", "One fact that a check found.")
      .def_prop_ro(
          "severity", [](const Finding& finding) { return to_string(finding.severity); },
          "'error', 'strict' (an error unless the caller is lenient) or 'report'.")
      .def_ro("code", &Finding::code, "A stable word, such as 'missing_source'.")
      .def_ro("tensor", &Finding::tensor, "The tensor's name, or ''.")
      .def_ro("file", &Finding::file, "The file's name, or ''.")
      .def_ro("message", &Finding::message, "A whole sentence with names and numbers.")
      .def("__eq__", [](const Finding& a, const Finding& b) { return a == b; })
      .def("__repr__", &representation);
  nb::register_exception_translator(&translate);
}

}  // namespace weightloom::python
