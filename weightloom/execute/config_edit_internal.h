// What a conversion makes untrue in config.json, edited in place: everything else stays byte for
// byte (order, spaces, the NaN and Infinity that Python writes).
//
// Thread safety: pure functions. Precondition of all: the text is well-formed, as ModelConfig::parse
// finds.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "weightloom/base/dtype.h"
#include "weightloom/base/syscalls.h"
#include "weightloom/plan/conversion.h"
#include "weightloom/safetensors/checkpoint.h"

namespace weightloom {

inline constexpr std::string_view kConfigName = "config.json";

/// The text with every `"dtype"` and `"torch_dtype"`, at the root and in the objects below it, that
/// names a castable type ("float32", "torch.bfloat16") naming `dtype` instead. What stands in
/// "quantization_config" is about the quantised tensors and stays too.
/// Precondition: `dtype` is castable.
std::string config_with_dtype(std::string_view json, DType dtype);

/// The text without "quantization_config" and "compression_config", at the root and in
/// "text_config"; their commas go with them.
std::string config_without_quantisation(std::string_view json);

/// The text with `value` (JSON) as its only "quantization_config": in place of the first that
/// stands at the root or in "text_config", else behind the last member of the root. The value is
/// indented as the text is, or written on one line if the text is one.
std::string config_with_quantisation(std::string_view json, std::string_view value);

/// What renamed_modules gives.
struct RenamedModules {
  std::string text;  ///< of config.json
  std::vector<std::string>
      patterns;  ///< entries that are regular expressions ("re:…"): as they were
};

/// The text with the module names that its quantization_config lists under modules_to_not_convert,
/// modules_to_convert, ignored_layers, ignore, llm_int8_skip_modules, exclude_modules, and under
/// targets of config_groups where they are names (with a dot), renamed. A name that its list
/// already has goes, with its comma.
RenamedModules renamed_modules(std::string_view json,
                               const std::function<std::string(std::string_view)>& rename);

/// The text of the config.json beside `source` after a conversion; nothing if there is no such
/// file, or nothing in it that changes.
std::optional<std::string> changed_config(const Syscalls& calls, const Checkpoint& source,
                                          const ConfigChanges& changes);

}  // namespace weightloom
