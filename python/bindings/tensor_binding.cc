#include <array>
#include <string_view>
#include <utility>

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/string_view.h>

#include "bind.h"
#include "tensor.h"
#include "weightloom/base/error.h"

namespace nb = nanobind;

namespace weightloom::python {
namespace {

using nb::dlpack::dtype_code;

std::byte no_bytes{};  // where a tensor without elements lies

/// How NumPy, torch and Python's buffers have a dtype.
struct Spelling {
  const char* torch = nullptr;       // its name in torch; null: none
  const char* buffer = nullptr;      // its PEP 3118 format; null: none, nor a NumPy dtype
  std::optional<dtype_code> code{};  // DLPack's; nothing: crosses as bytes
};

Spelling spelling_of(DType dtype) noexcept {
  switch (dtype) {
    case DType::BOOL:
      return {"bool", "?", dtype_code::Bool};
    case DType::F4:
      return {"float4_e2m1fn_x2"};
    case DType::F6_E2M3:
    case DType::F6_E3M2:
      return {};
    case DType::U8:
      return {"uint8", "B", dtype_code::UInt};
    case DType::I8:
      return {"int8", "b", dtype_code::Int};
    case DType::F8_E5M2:
      return {"float8_e5m2"};
    case DType::F8_E4M3:
      return {"float8_e4m3fn"};
    case DType::F8_E8M0:
      return {"float8_e8m0fnu"};
    case DType::F8_E4M3FNUZ:
      return {"float8_e4m3fnuz"};
    case DType::F8_E5M2FNUZ:
      return {"float8_e5m2fnuz"};
    case DType::I16:
      return {"int16", "h", dtype_code::Int};
    case DType::U16:
      return {"uint16", "H", dtype_code::UInt};
    case DType::F16:
      return {"float16", "e", dtype_code::Float};
    case DType::BF16:
      return {"bfloat16", nullptr, dtype_code::Bfloat};
    case DType::I32:
      return {"int32", "i", dtype_code::Int};
    case DType::U32:
      return {"uint32", "I", dtype_code::UInt};
    case DType::F32:
      return {"float32", "f", dtype_code::Float};
    case DType::C64:
      return {"complex64", "Zf", dtype_code::Complex};
    case DType::F64:
      return {"float64", "d", dtype_code::Float};
    case DType::I64:
      return {"int64", "q", dtype_code::Int};
    case DType::U64:
      return {"uint64", "Q", dtype_code::UInt};
  }
  __builtin_unreachable();
}

constexpr nb::dlpack::dtype kByte{static_cast<uint8_t>(dtype_code::UInt), 8, 1};

std::vector<size_t> sizes_of(const Shape& shape) { return {shape.begin(), shape.end()}; }

/// Memory as an array of a framework, which keeps `owner` alive.
template <typename... Kind>
nb::object array_of(const Tensor& tensor, const std::vector<size_t>& sizes, nb::dlpack::dtype dtype,
                    nb::handle owner) {
  std::byte* const data = tensor.bytes.empty() ? &no_bytes : tensor.bytes.data();
  const nb::ndarray<Kind..., nb::device::cpu> array(data, sizes.size(), sizes.data(), owner,
                                                    nullptr, dtype);
  return nb::cast(array);
}

Error unknown_to_numpy(DType dtype) {
  const std::string width = std::to_string(std::max(bits(dtype), 8));
  return {ErrorCode::unsupported, "NumPy has no dtype for " + std::string(to_string(dtype)),
          bits(dtype) < 8 ? "take the tensor's .bytes"
                          : "take .numpy(view='uint" + width + "') for its bits, or .torch()"};
}

nb::object numpy_of(const Tensor& tensor, nb::handle owner) {
  return array_of<nb::numpy>(tensor, sizes_of(tensor.shape), *dlpack_dtype(tensor.dtype), owner);
}

/// The bits as unsigned integers of the element's own width.
nb::object numpy_bits_of(const Tensor& tensor, const std::string& view, nb::handle owner) {
  const int width = bits(tensor.dtype);
  if (width < 8 || width > 64 || view != "uint" + std::to_string(width)) {
    throw Error(
        ErrorCode::usage,
        "view '" + view + "' of a tensor of " + std::string(to_string(tensor.dtype)) +
            ", whose elements have " + std::to_string(width) + " bits",
        width < 8 ? "take the tensor's .bytes" : "take 'uint" + std::to_string(width) + "'");
  }
  const nb::dlpack::dtype dtype{static_cast<uint8_t>(dtype_code::UInt), static_cast<uint8_t>(width),
                                1};
  return array_of<nb::numpy>(tensor, sizes_of(tensor.shape), dtype, owner);
}

nb::object to_numpy(nb::handle self, const std::optional<std::string>& view) {
  const auto& tensor = nb::cast<const Tensor&>(self);
  if (view) return numpy_bits_of(tensor, *view, self);
  if (spelling_of(tensor.dtype).buffer == nullptr) throw unknown_to_numpy(tensor.dtype);
  return numpy_of(tensor, self);
}

/// torch packs two F4 in one element.
std::vector<size_t> torch_sizes_of(const Tensor& tensor) {
  std::vector<size_t> sizes = sizes_of(tensor.shape);
  if (tensor.dtype == DType::F4) sizes.back() /= 2;
  return sizes;
}

nb::object torch_of(const Tensor& tensor, nb::handle owner) {
  if (const auto dtype = dlpack_dtype(tensor.dtype)) {
    return array_of<nb::pytorch>(tensor, sizes_of(tensor.shape), *dtype, owner);
  }
  const char* const name = spelling_of(tensor.dtype).torch;
  return array_of<nb::pytorch>(tensor, torch_sizes_of(tensor), kByte, owner)
      .attr("view")(nb::module_::import_("torch").attr(name));
}

nb::object to_torch(nb::handle self) {
  const auto& tensor = nb::cast<const Tensor&>(self);
  refuse_unknown_to(Framework::torch, tensor.dtype, "");
  return torch_of(tensor, self);
}

nb::object bytes_of(nb::handle self) {
  const auto& tensor = nb::cast<const Tensor&>(self);
  return array_of<nb::memview>(tensor, {tensor.bytes.size()}, kByte, self);
}

nb::object to_dlpack(nb::handle self, const nb::kwargs& options) {
  const auto& tensor = nb::cast<const Tensor&>(self);
  const auto dtype = dlpack_dtype(tensor.dtype);
  if (!dtype) {
    throw Error(ErrorCode::unsupported,
                "DLPack has no dtype for " + std::string(to_string(tensor.dtype)),
                "take .torch(), or .bytes");
  }
  return array_of<nb::array_api>(tensor, sizes_of(tensor.shape), *dtype, self)
      .attr("__dlpack__")(**options);
}

nb::object to_array(nb::handle self, const nb::object& dtype, const nb::object& copy) {
  const nb::object array = to_numpy(self, std::nullopt);
  if (dtype.is_none() && !(copy.is_valid() && nb::cast<bool>(nb::bool_(copy)))) return array;
  nb::dict options;
  options["dtype"] = dtype;
  if (!copy.is_none()) options["copy"] = copy;
  return nb::module_::import_("numpy").attr("array")(array, **options);
}

nb::tuple shape_of(const Tensor& tensor) {
  nb::list sizes;
  for (const int64_t size : tensor.shape) sizes.append(size);
  return nb::tuple(sizes);
}

std::string representation(const Tensor& tensor) {
  return "weightloom.Tensor(" + std::string(to_string(tensor.dtype)) + " " +
         to_string(std::span<const int64_t>(tensor.shape)) + ")";
}

}  // namespace

Framework parse_framework(const std::string& name) {
  if (name == "weightloom") return Framework::weightloom;
  if (name == "numpy" || name == "np") return Framework::numpy;
  if (name == "torch" || name == "pt") return Framework::torch;
  throw Error(ErrorCode::usage, "no framework is called '" + name + "'",
              "take 'numpy', 'torch' or 'weightloom'");
}

std::optional<nb::dlpack::dtype> dlpack_dtype(DType dtype) noexcept {
  const auto code = spelling_of(dtype).code;
  if (!code) return std::nullopt;
  return nb::dlpack::dtype{static_cast<uint8_t>(*code), static_cast<uint8_t>(bits(dtype)), 1};
}

bool holds(const nb::dlpack::dtype& found, DType dtype) noexcept {
  return found == kByte || found == dlpack_dtype(dtype);
}

void refuse_unknown_to(Framework framework, DType dtype, const std::string& name) {
  if (framework != Framework::torch) return;
  const char* const spelled = spelling_of(dtype).torch;
  if (spelled != nullptr && nb::hasattr(nb::module_::import_("torch"), spelled)) return;
  throw Error(ErrorCode::unsupported,
              (name.empty() ? "" : "tensor '" + name + "': ") + "this torch has no dtype for " +
                  std::string(to_string(dtype)),
              "take framework='weightloom', or leave it out");
}

namespace {

/// The owner alone, for arrays that need no Tensor: torch may keep them past the interpreter's end.
nb::capsule kept_alive(std::shared_ptr<const void> owner) {
  using Owner = std::shared_ptr<const void>;
  return {new Owner(std::move(owner)),
          [](void* held) noexcept { delete static_cast<Owner*>(held); }};
}

}  // namespace

nb::object to_framework(Tensor tensor, Framework framework) {
  switch (framework) {
    case Framework::weightloom:
      return nb::cast(std::move(tensor));
    case Framework::numpy:
      if (spelling_of(tensor.dtype).buffer == nullptr) return nb::cast(std::move(tensor));
      return numpy_of(tensor, kept_alive(tensor.owner));
    case Framework::torch:
      return torch_of(tensor, kept_alive(tensor.owner));
  }
  __builtin_unreachable();
}

void bind_tensor(nb::module_& module) {
  nb::class_<Tensor>(module, "Tensor",
                     "A tensor in memory, row-major, which it keeps alive.\n\n"
                     "It never passes for numbers of another type: what takes it must know its "
                     "dtype, or say which view of its bits it wants.")
      .def_prop_ro(
          "dtype", [](const Tensor& tensor) { return to_string(tensor.dtype); },
          "As safetensors spells it: 'BF16'.")
      .def_prop_ro("shape", &shape_of, nb::sig("def shape(self) -> tuple[int, ...]"),
                   "Sizes of the dims, outermost first, in elements.")
      .def_prop_ro(
          "nbytes", [](const Tensor& tensor) { return tensor.bytes.size(); },
          "Size of the data in bytes.")
      .def_prop_ro("bytes", &bytes_of, nb::sig("def bytes(self) -> memoryview"),
                   "The data as bytes, without a copy; writable.")
      .def("numpy", &to_numpy, nb::arg("view") = nb::none(),
           nb::sig("def numpy(self, view: str | None = None) -> typing.Any"),
           "An array on the same memory.\n\n"
           "Parameters\n----------\n"
           "view : str, optional\n"
           "    'uint8', 'uint16', 'uint32' or 'uint64', as wide as an element: its bits, "
           "whatever the dtype.\n\n"
           "Raises\n------\n"
           "UnsupportedError\n    If NumPy has no such dtype and no view is given.")
      .def("torch", &to_torch, nb::sig("def torch(self) -> typing.Any"),
           "A torch.Tensor on the same memory.\n\n"
           "Raises\n------\n"
           "UnsupportedError\n    If torch has no such dtype.")
      .def("__dlpack__", &to_dlpack, "DLPack's protocol; read and write.")
      .def("__dlpack_device__", [](const Tensor&) { return nb::make_tuple(1, 0); })
      .def("__array__", &to_array, nb::arg("dtype") = nb::none(), nb::arg("copy") = nb::none())
      .def("__repr__", &representation);
}

}  // namespace weightloom::python
