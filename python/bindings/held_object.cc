#include "held_object.h"

namespace nb = nanobind;

namespace weightloom::python {

HeldObject::HeldObject(const nb::object& object)
    : object_(object),
      key_(nb::cast<int64_t>(nb::module_::import_("weightloom._held").attr("hold")(object))) {}

HeldObject::~HeldObject() {
  if (!nb::is_alive()) return;  // the interpreter ends, and has freed the table
  const nb::gil_scoped_acquire locked;
  const nb::error_scope kept;  // an exception may be on its way
  try {
    nb::module_::import_("weightloom._held").attr("release")(key_);
  } catch (const nb::python_error&) {
    PyErr_Clear();  // the interpreter ends
  }
}

}  // namespace weightloom::python
