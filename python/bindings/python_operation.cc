#include "python_operation.h"

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <nanobind/nanobind.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include "held_context.h"
#include "held_object.h"
#include "weightloom/layout/layout.h"

namespace nb = nanobind;

namespace weightloom::python {
namespace {

nb::object object_of(const Slot& slot) {
  if (slot.is_list) return nb::cast(slot.items);
  return nb::cast(slot.items.front());
}

Slot slot_of(nb::handle object) {
  Slot slot;
  slot.is_list = !nb::isinstance<Layout>(object);
  if (slot.is_list) {
    slot.items = nb::cast<std::vector<Layout>>(object);
  } else {
    slot.items.push_back(nb::cast<Layout>(object));
  }
  return slot;
}

class PythonOperation final : public ConversionOperation {
 public:
  explicit PythonOperation(const nb::object& object)
      : name_(nb::cast<std::string>(object.attr("name"))),
        json_(nb::cast<std::string>(
            nb::module_::import_("json").attr("dumps")(object.attr("to_json")()))),
        object_(object) {}

  std::string name() const override { return name_; }
  std::string to_json() const override { return json_; }

  std::vector<Slot> apply(std::vector<Slot> slots, const OperationContext& context) const override {
    const nb::gil_scoped_acquire locked;
    try {
      return applied(slots, context);
    } catch (const nb::python_error& error) {
      if (!error.matches(PyExc_ValueError)) throw;
      const std::string message = nb::cast<std::string>(nb::str(error.value()));
      refuse_operation("operation_refused", name_ + ": " + message);
    } catch (const nb::cast_error&) {
      refuse_operation("operation_refused",
                       name_ + ": apply() gave something else than layouts and lists of them");
    }
  }

  OperationPtr reverse() const override {
    const nb::gil_scoped_acquire locked;
    return operation_of(object_.get().attr("reverse")());
  }

 private:
  std::vector<Slot> applied(const std::vector<Slot>& slots, const OperationContext& context) const {
    nb::list given;
    for (const Slot& slot : slots) given.append(object_of(slot));
    std::vector<Slot> made;
    for (nb::handle object : object_.get().attr("apply")(given, nb::cast(HeldContext(context)))) {
      made.push_back(slot_of(object));
      const size_t i = made.size() - 1;
      if (i < slots.size()) made.back().pattern = slots[i].pattern;
    }
    return made;
  }

  std::string name_;
  std::string json_;
  HeldObject object_;
};

}  // namespace

OperationPtr operation_of(nb::object object) {
  return std::make_shared<const PythonOperation>(object);
}

}  // namespace weightloom::python
