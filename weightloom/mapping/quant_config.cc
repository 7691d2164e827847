#include <algorithm>
#include <array>
#include <cctype>
#include <utility>

#include <fmt/format.h>

#include "weightloom/base/quote.h"
#include "weightloom/mapping/quant_config_groups_internal.h"
#include "weightloom/mapping/quant_config_internal.h"
#include "weightloom/mapping/quant_config_reader_internal.h"

namespace weightloom {
namespace {

constexpr std::array<std::string_view, 4> kPlaces = {"quantization_config", "compression_config",
                                                     "text_config.quantization_config",
                                                     "text_config.compression_config"};
constexpr std::array<std::string_view, 5> kExcluded = {"modules_to_not_convert", "ignored_layers",
                                                       "ignore", "llm_int8_skip_modules",
                                                       "exclude_modules"};

std::string lowered(std::string text) {
  std::ranges::transform(text, text.begin(),
                         [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return text;
}

void read_fp8(QuantConfigReader& object, QuantConfig& config) {
  config.method = QuantMethod::fp8;
  if (config.name == "mxfp8") config.block = QuantBlock{1, 32};
  if (const auto block = object.integers("weight_block_size")) {
    const bool sound = block->size() == 2 && (*block)[0] > 0 && (*block)[1] > 0;
    if (sound) config.block = QuantBlock{(*block)[0], (*block)[1]};
    if (!sound) object.refuse("weight_block_size", "is not two positive numbers");
  }
  const std::string experts = object.text("expert_dtype").value_or("fp8");
  config.fp4_experts = experts == "fp4";
  if (experts != "fp8" && experts != "fp4") {
    object.refuse("expert_dtype", fmt::format("is {}; known are 'fp8' and 'fp4'", quote(experts)));
  }
}

int64_t group_size_of(QuantConfigReader& object, std::string_view key, std::string_view other_key,
                      std::optional<int64_t> otherwise) {
  auto size = object.integer(key);
  if (!size) size = object.integer(other_key);
  if (!size) size = otherwise;
  if (!size) object.refuse(key, "is not there: it says how many values share a scale");
  if (size && *size != -1 && *size <= 0) {
    object.refuse(key, fmt::format("is {}, but groups are of a positive size, or -1: all", *size));
  }
  return size.value_or(-1);
}

/// GPTQModel's "dynamic": other settings for some modules. Those that leave modules out are plain.
bool has_overrides(QuantConfigReader& object) {
  const auto dynamic = object.object("dynamic");
  if (!dynamic) return false;
  const auto keys = dynamic->keys();
  return std::ranges::any_of(keys, [](const std::string& key) { return !key.starts_with("-:"); });
}

void read_gptq(QuantConfigReader& object, QuantConfig& config) {
  config.method = QuantMethod::gptq;
  config.bits = object.integer("bits").value_or(0);
  config.group_size = group_size_of(object, "group_size", "group_size", std::nullopt);
  config.act_order = object.flag("desc_act", false);
  const std::string format = object.text("checkpoint_format").value_or("gptq");
  config.zero_bias = format == "gptq" ? 1 : 0;
  if (config.bits != 4 && config.bits != 8) object.refuse("bits", "is not 4 or 8");
  if (format != "gptq" && format != "gptq_v2") {
    object.refuse("checkpoint_format",
                  fmt::format("is {}; known are 'gptq' and 'gptq_v2'", quote(format)));
  }
  if (object.flag("is_marlin_format", false)) {
    object.refuse("is_marlin_format", "is true: Marlin's order of words is not known");
  }
  if (has_overrides(object)) {
    object.refuse("dynamic", "has other settings for some modules, which is not known");
  }
}

void read_awq(QuantConfigReader& object, QuantConfig& config) {
  config.method = QuantMethod::awq;
  auto bits = object.integer("bits");
  if (!bits) bits = object.integer("w_bit");
  config.bits = bits.value_or(0);
  config.group_size = group_size_of(object, "group_size", "q_group_size", std::nullopt);
  const std::string version = lowered(object.text("version").value_or("gemm"));
  if (config.bits != 4) object.refuse("bits", "is not 4");
  if (version != "gemm") {
    object.refuse("version", fmt::format("is {}; known is 'gemm'", quote(version)));
  }
  if (!object.flag("zero_point", true)) {
    object.refuse("zero_point", "is false, but the 'gemm' form has zero points");
  }
}

/// ModelOpt says its algorithm here, or in an object "quantization".
void read_modelopt(QuantConfigReader& object, QuantConfig& config) {
  auto inner = object.has("quant_algo") ? std::nullopt : object.object("quantization");
  QuantConfigReader& at = inner ? *inner : object;
  const std::string algorithm = at.text("quant_algo").value_or("");
  config.method = QuantMethod::fp8;
  if (algorithm == "FP8") return;
  if (algorithm == "MXFP8") {
    config.block = QuantBlock{1, 32};
    return;
  }
  config.method = QuantMethod::nvfp4;
  config.group_size = group_size_of(at, "group_size", "group_size", 16);
  if (algorithm == "NVFP4") return;
  at.refuse("quant_algo",
            fmt::format("is {}; known are 'FP8', 'MXFP8' and 'NVFP4'", quote(algorithm)));
}

void read_method(QuantConfigReader& object, QuantConfig& config) {
  const std::string& name = config.name;
  const bool is_fp8 = name == "fp8" || name == "mxfp8" || name == "fbgemm_fp8";
  if (is_fp8) return read_fp8(object, config);
  if (name == "gptq") return read_gptq(object, config);
  if (name == "awq") return read_awq(object, config);
  if (name == "modelopt" || name == "modelopt_fp4") return read_modelopt(object, config);
  if (name == "compressed-tensors") {
    config.method = QuantMethod::compressed_tensors;
    config.groups = read_quant_groups(object);
    return;
  }
  config.method = QuantMethod::unknown;
  if (name == "mxfp4") config.method = QuantMethod::mxfp4;
  if (name == "bitsandbytes") config.method = QuantMethod::bitsandbytes;
  if (config.method != QuantMethod::unknown) return;
  object.refuse("quant_method",
                fmt::format("is {}; known are fp8, mxfp8, fbgemm_fp8, mxfp4, compressed-tensors, "
                            "modelopt, gptq, awq and bitsandbytes",
                            name.empty() ? "not there" : quote(name)));
}

/// bitsandbytes wrote no method at first, and compressed-tensors may say only its groups.
std::string method_of(QuantConfigReader& object) {
  if (object.has("quant_method")) return lowered(object.text("quant_method").value_or(""));
  if (object.has("load_in_4bit") || object.has("load_in_8bit")) return "bitsandbytes";
  return object.has("config_groups") ? "compressed-tensors" : "";
}

}  // namespace

QuantConfig read_quant_config(const ModelConfig& config) {
  QuantConfig result;
  std::optional<ModelConfig> object;
  for (const std::string_view place : kPlaces) {
    if (!config.has(place) || config.is_null(place)) continue;
    const auto found = config.object_at(place);
    const bool differs = object && found != object;
    if (!found || differs) {
      result.method = QuantMethod::unknown;
      result.findings.push_back(
          {Severity::error, "unknown_scheme", "", "config.json",
           fmt::format("config.json: '{}' {}", place,
                       differs ? fmt::format("says something else than '{}'", result.where)
                               : "is not an object")});
      return result;
    }
    if (object) continue;
    object = found;
    result.where = place;
  }
  if (!object) return result;
  QuantConfigReader reader(*object, result.where, result.findings);
  result.name = method_of(reader);
  read_method(reader, result);
  for (const std::string_view key : kExcluded) {
    auto modules = reader.texts(key).value_or(std::vector<std::string>{});
    std::ranges::move(modules, std::back_inserter(result.excluded));
  }
  return result;
}

}  // namespace weightloom
