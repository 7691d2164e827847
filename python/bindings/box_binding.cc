#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <nanobind/nanobind.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include "bind.h"
#include "source.h"
#include "tensor.h"
#include "watch.h"
#include "weightloom/base/error.h"
#include "weightloom/execute/load.h"
#include "weightloom/layout/operations.h"
#include "weightloom/plan/compile.h"

namespace nb = nanobind;

namespace weightloom::python {
namespace {

const StoredTensor& tensor_called(const Source& source, const std::string& name) {
  const StoredTensor* const found = source.checkpoint().find(name);
  if (found != nullptr) return *found;
  throw Error(ErrorCode::usage, source.checkpoint().path() + ": there is no tensor '" + name + "'");
}

/// Elements [begins[i], ends[i]) of each dim; no bounds: all of them.
Layout box_of(const StoredTensor& tensor, const Shape& begins, const Shape& ends) {
  Layout layout = identity(0, tensor.shape);
  for (size_t i = 0; i < begins.size(); ++i) {
    layout = slice(layout, static_cast<int>(i), begins[i], ends.at(i));
  }
  return layout;
}

CopyProgram program_of(const Source& source, const StoredTensor& tensor, Layout box) {
  const CheckpointFile& file = source.checkpoint().files()[static_cast<size_t>(tensor.file)];
  Compiled compiled = compile(
      {{file.name, file.path, file.status}},
      {{tensor.name, tensor.dtype, tensor.shape, 0, tensor.offset_bytes, tensor.size_bytes}},
      {{tensor.name, tensor.dtype, std::move(box)}});
  for (const Finding& finding : compiled.findings) {  // the rest of the tensor is not wanted
    if (finding.code == "source_not_used") continue;
    throw Error(ErrorCode::unsupported, finding.message);
  }
  return std::move(compiled.program);
}

nb::object read_box(const SourcePtr& source, const std::string& name, const Shape& begins,
                    const Shape& ends, const std::string& framework) {
  const Framework kind = parse_framework(framework);
  const StoredTensor& tensor = tensor_called(*source, name);
  refuse_unknown_to(kind, tensor.dtype, name);
  const CopyProgram program = program_of(*source, tensor, box_of(tensor, begins, ends));
  const auto memory = std::make_shared<LoadedTensors>(allocate(program));
  Watch watch(std::nullopt, std::nullopt, nb::none());
  watch.run([&] {
    fill(source->calls(), program, *memory, {watch.options(), {}});
    return true;
  });
  const ProgramTarget& target = program.targets().front();
  return to_framework({target.dtype, target.shape, memory->tensors.front(), memory}, kind);
}

}  // namespace

void bind_boxes(nb::module_& module) {
  module.def("read_box", &read_box, nb::arg("source"), nb::arg("name"), nb::arg("begins"),
             nb::arg("ends"), nb::arg("framework"),
             "Elements [begins[i], ends[i]) of each dim of a tensor; without bounds, all of it.");
}

}  // namespace weightloom::python
