// What config.json declares about quantised tensors, as a value. Read strictly: what is there in
// another form than its scheme has is a finding, not a default.
//
// Thread safety: values and pure functions.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "weightloom/base/error.h"
#include "weightloom/mapping/model_config.h"

namespace weightloom {

/// The families of schemes; each has a file quantised_….cc or shares one.
enum class QuantMethod : uint8_t {
  none,                ///< config.json declares nothing
  fp8,                 ///< "fp8", "mxfp8", "fbgemm_fp8", ModelOpt's FP8 and MXFP8
  mxfp4,               ///< GPT-OSS
  compressed_tensors,  ///< by groups
  nvfp4,               ///< ModelOpt's NVFP4, with FP8 beside it
  gptq,
  awq,
  bitsandbytes,
  unknown,  ///< said in the findings
};

/// Rows and columns that share a scale.
struct QuantBlock {
  int64_t rows = 0;
  int64_t cols = 0;
  friend bool operator==(const QuantBlock&, const QuantBlock&) = default;
};

/// Which values share a scale, as compressed-tensors calls it.
enum class QuantStrategy : uint8_t { tensor, channel, group, block };

/// How the weights of a group of modules are quantised.
struct WeightArgs {
  bool is_float = false;
  int64_t bits = 8;
  bool symmetric = true;
  QuantStrategy strategy = QuantStrategy::tensor;
  bool has_global_scale = false;  ///< strategy "tensor_group"
  int64_t group_size = 0;         ///< of a group
  QuantBlock block{};             ///< of a block
  std::string format{};           ///< "pack-quantized"; "" if not said

  friend bool operator==(const WeightArgs&, const WeightArgs&) = default;
};

/// A group of modules: names, regular expressions ("re:…", matched from the beginning) or classes
/// (a word without a dot), and how their weights are quantised.
struct QuantGroup {
  std::string name;
  std::vector<std::string> targets;
  WeightArgs weights;
};

/// See the top of this file.
struct QuantConfig {
  QuantMethod method = QuantMethod::none;
  std::string where{};                ///< "quantization_config", "text_config.quantization_config"
  std::string name{};                 ///< of the method, as written
  std::optional<QuantBlock> block{};  ///< fp8: as declared
  bool fp4_experts = false;          ///< fp8: experts are pairs of 4-bit floats in blocks of 1 × 32
  std::vector<QuantGroup> groups{};  ///< compressed-tensors
  int64_t bits = 4;                  ///< gptq, awq
  int64_t group_size = 0;            ///< gptq, awq, nvfp4; -1: all
  bool act_order = false;            ///< gptq
  int zero_bias = 0;                 ///< gptq
  std::vector<std::string> excluded{};  ///< modules that it says are not converted
  std::vector<Finding>
      findings{};  ///< unknown_scheme: what it does not say, or says in no known way
};

/// Looks at quantization_config and compression_config, at the root and in text_config.
QuantConfig read_quant_config(const ModelConfig& config);

}  // namespace weightloom
