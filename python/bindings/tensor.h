// A tensor in memory that it keeps alive, as Python sees it.
#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>

#include "weightloom/base/dtype.h"
#include "weightloom/base/shape.h"

namespace weightloom::python {

/// Row-major, without gaps. Several tensors share an owner, such as the arena of a load.
struct Tensor {
  DType dtype = DType::U8;
  Shape shape;
  std::span<std::byte> bytes;
  std::shared_ptr<const void> owner;
};

/// What a caller wants tensors to be.
enum class Framework { weightloom, numpy, torch };
/// "weightloom", "numpy", "torch". Errors: usage.
Framework parse_framework(const std::string& name);

/// The dtype by DLPack's numbers; nothing for those that DLPack 1.1 spells in more than one way or
/// not at all.
std::optional<nanobind::dlpack::dtype> dlpack_dtype(DType dtype) noexcept;
/// True if a buffer of DLPack's dtype holds elements of `dtype`: of the same type, or raw bytes.
bool holds(const nanobind::dlpack::dtype& found, DType dtype) noexcept;

/// Errors: unsupported if the framework has no such dtype.
void refuse_unknown_to(Framework framework, DType dtype, const std::string& name);
/// The tensor as an object of a framework, without a copy. NumPy gets a Tensor for a dtype that it
/// does not have.
nanobind::object to_framework(Tensor tensor, Framework framework);

}  // namespace weightloom::python
