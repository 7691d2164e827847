#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <nanobind/nanobind.h>
#include <nanobind/stl/map.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/string_view.h>
#include <nanobind/stl/vector.h>

#include "bind.h"
#include "held_object.h"
#include "python_operation.h"
#include "shipped.h"
#include "weightloom/base/error.h"
#include "weightloom/mapping/key_renamer.h"
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

using Kinds = std::map<std::string, std::string>;  // parameter → what it is

nb::object parameter_of(const OperationParameters& given, const std::string& name,
                        const std::string& kind) {
  if (kind == "int") return nb::cast(given.integer(name));
  if (kind == "bool") return nb::cast(given.flag(name, false));
  if (kind == "str") return nb::cast(given.text(name));
  return nb::cast(given.texts(name));
}

/// What makes a Python object of the JSON form; copied and destroyed without the lock too.
OperationMaker maker_of(const Kinds& kinds, const nb::callable& make) {
  const auto held = std::make_shared<const HeldObject>(make);
  OperationMaker maker;
  for (const auto& [name, kind] : kinds) maker.parameters.push_back(name);
  maker.make = [kinds, held](const OperationParameters& given) {
    const nb::gil_scoped_acquire locked;
    nb::dict arguments;
    for (const auto& [name, kind] : kinds) {
      if (given.has(name)) arguments[nb::cast(name)] = parameter_of(given, name, kind);
    }
    return operation_of(held->get()(**arguments));
  };
  return maker;
}

void add_operation(Registry& registry, std::string name, const Kinds& kinds,
                   const nb::callable& make) {
  for (const auto& [parameter, kind] : kinds) {
    if (kind == "int" || kind == "bool" || kind == "str" || kind == "list") continue;
    throw Error(ErrorCode::usage,
                "operation '" + name + "': parameter '" + parameter + "' is of kind '" + kind + "'",
                "parameters are int, bool, str or list of str");
  }
  registry.add_operation(std::move(name), maker_of(kinds, make));
}

using Texts = std::vector<std::string>;

/// Calls a function of Python that takes and gives texts, and reads the transforms it gave.
std::vector<WeightTransform> transforms_from(const HeldObject& function, const Texts& given,
                                             const OperationMakers& operations) {
  const nb::gil_scoped_acquire locked;
  const nb::object made = function.get()(*nb::tuple(nb::cast(given)));
  return Mapping::parse(nb::cast<std::string>(made), "quantiser", operations).transforms();
}

/// The functions work on JSON: of the config, and of a mapping. Copied and destroyed without the
/// lock too.
void add_quantiser(Registry& registry, std::string quant_method, const nb::object& conversions,
                   const nb::object& update, bool overwrite) {
  Quantiser quantiser;
  if (!conversions.is_none()) {
    quantiser.weight_conversions = [held = std::make_shared<const HeldObject>(conversions),
                                    known = registry.operations()](const ModelConfig& config) {
      return transforms_from(*held, {config.to_json()}, known);
    };
  }
  if (!update.is_none()) {
    quantiser.update_weight_conversions =
        [held = std::make_shared<const HeldObject>(update), known = registry.operations()](
            std::vector<WeightTransform> transforms, const ModelConfig& config) {
          const Mapping mapping("quantiser", std::move(transforms));
          return transforms_from(*held, {mapping.to_json(), config.to_json()}, known);
        };
  }
  registry.add_quantiser(std::move(quant_method), std::move(quantiser), overwrite);
}

/// The one transform that the text of a mapping file holds.
WeightTransform transform_of(const std::string& json, const RegistryPtr& registry) {
  const Registry& known = registry ? *registry : shipped_registry();
  const Mapping mapping = Mapping::parse(json, "transform", known.operations());
  if (mapping.transforms().size() == 1) return mapping.transforms().front();
  throw Error(ErrorCode::usage, "the text does not hold one transform");
}

std::string reversed_json(const std::string& json, const RegistryPtr& registry) {
  return Mapping("transform", {reversed(transform_of(json, registry))}).to_json();
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
      .def("add_operation", &add_operation, nb::arg("name"), nb::arg("parameters"), nb::arg("make"),
           "Adds an operation that mappings may name: its parameters with their kinds ('int', "
           "'bool', 'str', 'list' of str), and what makes a LayoutOperation of them.")
      .def("add_quantiser", &add_quantiser, nb::arg("quant_method"), nb::arg("conversions").none(),
           nb::arg("update").none(), nb::arg("overwrite") = false,
           nb::sig("def add_quantiser(self, quant_method: str, conversions: "
                   "collections.abc.Callable[[str], str] | None, update: "
                   "collections.abc.Callable[[str, str], str] | None, overwrite: bool = False) -> "
                   "None"),
           "Adds what a scheme of config.json does to rules. `conversions` makes the text of a "
           "mapping of config.json's; `update` makes one of the text of the whole mapping and "
           "config.json's.")
      .def("__contains__", [](const Registry& registry, const std::string& name) {
        return registry.find(name) != nullptr || registry.is_plain(name);
      });
  nb::class_<KeyRenamer>(module, "KeyRenamer", "A transform's patterns, for one name at a time.")
      .def(
          "__init__",
          [](KeyRenamer* self, const std::string& json, const RegistryPtr& registry) {
            new (self) KeyRenamer(transform_of(json, registry));
          },
          nb::arg("json"), nb::arg("registry").none())
      .def(
          "rename",
          [](KeyRenamer& renamer, const std::string& key) {
            RenamedKey renamed = renamer.rename(key);
            return std::pair(std::move(renamed.key), renamed.source);
          },
          nb::arg("key"), "The new name, and the place of the source pattern that matched.");
  module.def("reversed_json", &reversed_json, nb::arg("json"), nb::arg("registry").none(),
             "The mapping of one transform, as text, with the transform that undoes it.");
}

}  // namespace weightloom::python
