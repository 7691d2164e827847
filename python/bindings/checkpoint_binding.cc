#include <algorithm>
#include <cstring>
#include <map>
#include <tuple>
#include <utility>

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/map.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/string_view.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include "bind.h"
#include "source.h"
#include "tensor.h"
#include "weightloom/base/error.h"

namespace nb = nanobind;

namespace weightloom::python {
namespace {

/// A tensor of a checkpoint, with the name of its file.
struct TensorInfo {
  std::string name;
  DType dtype;
  Shape shape;
  std::string file;
  int64_t offset_bytes;
  int64_t size_bytes;
};

TensorInfo info_of(const Checkpoint& checkpoint, const StoredTensor& tensor) {
  return {tensor.name,         tensor.dtype,
          tensor.shape,        checkpoint.files()[static_cast<size_t>(tensor.file)].name,
          tensor.offset_bytes, tensor.size_bytes};
}

/// Errors: KeyError's kin.
TensorInfo info_by_name(const Source& source, const std::string& name) {
  const StoredTensor* const found = source.checkpoint().find(name);
  if (found == nullptr) {
    const nb::object refusal = nb::module_::import_("weightloom._errors")
                                   .attr("unknown_tensor")(name, source.checkpoint().path());
    PyErr_SetObject(reinterpret_cast<PyObject*>(Py_TYPE(refusal.ptr())), refusal.ptr());
    throw nb::python_error();
  }
  return info_of(source.checkpoint(), *found);
}

std::vector<std::string> names_in(const Source& source) {
  std::vector<std::string> names;
  for (const StoredTensor& tensor : source.checkpoint().tensors()) names.push_back(tensor.name);
  return names;
}

std::vector<TensorInfo> infos_in(const Source& source) {
  std::vector<TensorInfo> infos;
  for (const StoredTensor& tensor : source.checkpoint().tensors()) {
    infos.push_back(info_of(source.checkpoint(), tensor));
  }
  return infos;
}

std::vector<std::pair<std::string, TensorInfo>> items_in(const Source& source) {
  std::vector<std::pair<std::string, TensorInfo>> items;
  for (TensorInfo& info : infos_in(source)) {
    std::string name = info.name;
    items.emplace_back(std::move(name), std::move(info));
  }
  return items;
}

std::vector<std::string> files_in(const Source& source) {
  std::vector<std::string> names;
  for (const CheckpointFile& file : source.checkpoint().files()) names.push_back(file.name);
  return names;
}

std::map<std::string, std::string> metadata_of(const Source& source, const std::string& name) {
  for (const CheckpointFile& file : source.checkpoint().files()) {
    const Metadata& metadata = file.header.metadata();
    if (file.name == name) return {metadata.begin(), metadata.end()};
  }
  throw Error(ErrorCode::usage,
              source.checkpoint().path() + ": no file of it is called '" + name + "'");
}

std::vector<std::string> names_by_offset(const Source& source) {
  std::vector<std::string> names;
  for (const CheckpointFile& file : source.checkpoint().files()) {
    for (const HeaderTensor& tensor : file.header.tensors()) names.push_back(tensor.name);
  }
  return names;
}

SourcePtr open_source(const std::string& path, int threads) {
  const nb::gil_scoped_release released;
  return Source::open(path, threads);
}

using Held = std::tuple<std::string, std::string, Shape, nb::object>;
using Buffer = nb::ndarray<nb::ro, nb::c_contig, nb::device::cpu>;

DType known_dtype(const std::string& name, const std::string& tensor) {
  if (const auto dtype = parse_dtype(name)) return *dtype;
  throw Error(ErrorCode::usage, "tensor '" + tensor + "': safetensors has no dtype '" + name + "'");
}

/// Arrays that lend their memory until the last of them goes, with the interpreter's lock held.
std::shared_ptr<const void> kept(std::vector<Buffer> buffers) {
  return {new std::vector<Buffer>(std::move(buffers)), [](std::vector<Buffer>* held) {
            const nb::gil_scoped_acquire locked;
            delete held;
          }};
}

/// Two tensors on the same bytes are written once if the caller says which one counts.
void refuse_overlap(const std::vector<MemoryTensor>& tensors) {
  std::vector<const MemoryTensor*> order;
  for (const MemoryTensor& tensor : tensors) {
    if (!tensor.bytes.empty()) order.push_back(&tensor);
  }
  std::sort(order.begin(), order.end(), [](const MemoryTensor* a, const MemoryTensor* b) {
    return std::tuple(a->bytes.data(), a->spec.name) < std::tuple(b->bytes.data(), b->spec.name);
  });
  for (size_t i = 1; i < order.size(); ++i) {
    const auto end = order[i - 1]->bytes.data() + order[i - 1]->bytes.size();
    if (order[i]->bytes.data() >= end) continue;
    throw Error(ErrorCode::usage,
                "tensors '" + order[i - 1]->spec.name + "' and '" + order[i]->spec.name +
                    "' share memory, and nothing says that they are tied",
                "name the one that is not to be written in tied={'name': 'of the other'}, or copy "
                "it first");
  }
}

SourcePtr source_in_memory(const std::vector<Held>& held,
                           const std::vector<std::pair<std::string, std::string>>& metadata,
                           const std::vector<std::pair<std::string, std::string>>& texts) {
  std::vector<MemoryTensor> tensors;
  std::vector<Buffer> buffers;
  for (const auto& [name, dtype, shape, object] : held) {
    Buffer buffer;
    if (!nb::try_cast<Buffer>(object, buffer, false)) {
      throw Error(ErrorCode::usage,
                  "tensor '" + name + "': its memory is not on the CPU, or has gaps",
                  "copy it to contiguous memory first");
    }
    const auto* const data = static_cast<const std::byte*>(buffer.data());
    tensors.push_back({{name, known_dtype(dtype, name), shape}, {data, buffer.nbytes()}});
    buffers.push_back(std::move(buffer));
  }
  refuse_overlap(tensors);
  auto owner = kept(std::move(buffers));
  const nb::gil_scoped_release released;
  return Source::in_memory(MemoryCheckpoint::make(std::move(tensors), metadata, texts),
                           std::move(owner));
}

bool equal_bytes(const Buffer& a, const Buffer& b) {
  if (a.nbytes() != b.nbytes()) return false;
  const nb::gil_scoped_release released;
  return a.nbytes() == 0 || std::memcmp(a.data(), b.data(), a.nbytes()) == 0;
}

std::string representation(const Source& source) {
  const Checkpoint& checkpoint = source.checkpoint();
  return "weightloom.Checkpoint('" + checkpoint.path() + "', " +
         std::to_string(checkpoint.tensors().size()) + " tensors, " +
         std::to_string(checkpoint.data_bytes()) + " bytes)";
}

void bind_info(nb::module_& module) {
  nb::class_<TensorInfo>(module, "TensorInfo",
                         "A tensor of a checkpoint and where its bytes stand.")
      .def_ro("name", &TensorInfo::name, "As its header spells it.")
      .def_prop_ro(
          "dtype", [](const TensorInfo& info) { return to_string(info.dtype); },
          "As safetensors spells it: 'BF16'.")
      .def_prop_ro(
          "shape", [](const TensorInfo& info) { return nb::tuple(nb::cast(info.shape)); },
          nb::sig("def shape(self) -> tuple[int, ...]"), "Sizes of the dims, outermost first.")
      .def_ro("file", &TensorInfo::file, "Name of its file.")
      .def_ro("offset", &TensorInfo::offset_bytes, "Of its data in the file, in bytes.")
      .def_ro("nbytes", &TensorInfo::size_bytes, "Size of its data in bytes.")
      .def("__repr__", [](const TensorInfo& info) {
        return "TensorInfo('" + info.name + "', " + std::string(to_string(info.dtype)) + " " +
               to_string(std::span<const int64_t>(info.shape)) + ")";
      });
}

}  // namespace

void bind_checkpoint(nb::module_& module) {
  bind_info(module);
  nb::class_<Source>(module, "Checkpoint",
                     "A checkpoint, resolved from headers alone: a mapping of names, sorted, to "
                     "TensorInfo.")
      .def_prop_ro(
          "path", [](const Source& source) { return source.checkpoint().path(); },
          "As it was given.")
      .def_prop_ro(
          "folder", [](const Source& source) { return source.checkpoint().folder(); },
          "Where config.json is looked for.")
      .def_prop_ro(
          "nbytes", [](const Source& source) { return source.checkpoint().data_bytes(); },
          "Size of all tensors' data in bytes.")
      .def_prop_ro("files", &files_in, "Names of its safetensors files, sorted.")
      .def_prop_ro(
          "findings",
          [](const Source& source) {
            const auto found = source.checkpoint().findings();
            return std::vector<Finding>(found.begin(), found.end());
          },
          "Facts that only inform, such as files that were left out.")
      .def("metadata", &metadata_of, nb::arg("file"), "Header metadata of one of the files.")
      .def("keys", &names_in, "Names of the tensors, sorted.")
      .def("offset_keys", &names_by_offset, "Names of the tensors, by file and offset.")
      .def("values", &infos_in, "What stands under each name.")
      .def("items", &items_in, "Names with what stands under them.")
      .def(
          "get",
          [](const Source& source, const std::string& name, nb::object otherwise) {
            const StoredTensor* const found = source.checkpoint().find(name);
            return found == nullptr ? otherwise : nb::cast(info_of(source.checkpoint(), *found));
          },
          nb::arg("name"), nb::arg("default") = nb::none(),
          "What stands under a name, or the default.")
      .def("__getitem__", &info_by_name, nb::arg("name"))
      .def("__contains__",
           [](const Source& source, nb::handle name) {
             return nb::isinstance<nb::str>(name) &&
                    source.checkpoint().find(nb::cast<std::string>(name)) != nullptr;
           })
      .def("__iter__", [](const Source& source) { return nb::iter(nb::cast(names_in(source))); })
      .def("__len__", [](const Source& source) { return source.checkpoint().tensors().size(); })
      .def("__repr__", &representation);
  module.def("open", &open_source, nb::arg("path"), nb::arg("threads") = 1,
             "Reads all headers of a .safetensors file, a folder or an index.");
  module.def("equal_bytes", &equal_bytes, nb::arg("a").noconvert(), nb::arg("b").noconvert(),
             "True if two contiguous buffers hold the same bytes.");
  module.def("in_memory", &source_in_memory, nb::arg("tensors"), nb::arg("metadata"),
             nb::arg("texts"),
             "A checkpoint of (name, dtype, shape, contiguous buffer), whose memory is lent to it, "
             "with (name, text) of files beside it.");
}

}  // namespace weightloom::python
