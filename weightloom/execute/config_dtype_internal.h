// What a cast makes untrue in config.json.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "weightloom/base/dtype.h"
#include "weightloom/base/syscalls.h"
#include "weightloom/safetensors/checkpoint.h"

namespace weightloom {

inline constexpr std::string_view kConfigName = "config.json";

/// The text with every `"dtype"` and `"torch_dtype"`, at the root and in the objects below it, that
/// names a castable type ("float32", "torch.bfloat16") naming `dtype` instead. Everything else
/// stays byte for byte: order, spaces, the NaN and Infinity that Python writes. What stands in
/// "quantization_config" is about the quantised tensors and stays too.
/// Precondition: `json` is well-formed and `dtype` castable.
std::string config_with_dtype(std::string_view json, DType dtype);

/// The text of the config.json beside `source` after a cast to `dtype`; nothing if there is no such
/// file, no cast, or nothing in it that changes.
std::optional<std::string> changed_config(const Syscalls& calls, const Checkpoint& source,
                                          std::optional<DType> dtype);

}  // namespace weightloom
