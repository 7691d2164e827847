#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <nanobind/nanobind.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/string_view.h>
#include <nanobind/stl/vector.h>

#include "bind.h"
#include "shipped.h"
#include "weightloom/mapping/registry.h"

namespace nb = nanobind;

namespace weightloom::python {
namespace {

std::optional<std::string> json_of(const Registry& registry, const std::string& name) {
  const Mapping* const mapping = registry.find(name);
  if (mapping == nullptr) return std::nullopt;
  return mapping->to_json();
}

void add_json(Registry& registry, const std::string& json, bool overwrite) {
  registry.add(Mapping::parse(json, "mapping", registry.operations()), overwrite);
}

}  // namespace

void bind_registry(nb::module_& module) {
  nb::class_<Registry>(module, "Registry",
                       "Mappings by name and alias: the shipped ones, and more.")
      .def("__init__", [](Registry* self) { new (self) Registry(shipped_registry()); })
      .def("names", &Registry::names, "Names of the mappings, sorted, without aliases.")
      .def("is_plain", &Registry::is_plain, nb::arg("model_type"),
           "True for a model type that is known to need no mapping.")
      .def("json", &json_of, nb::arg("name"),
           "The mapping of a name or alias as the text of a mapping file; None if unknown.")
      .def("add_json", &add_json, nb::arg("text"), nb::arg("overwrite") = false,
           "Adds the mapping that the text of a mapping file holds, under its name and aliases.")
      .def("__contains__", [](const Registry& registry, const std::string& name) {
        return registry.find(name) != nullptr || registry.is_plain(name);
      });
}

}  // namespace weightloom::python
