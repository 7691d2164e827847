#include "weightloom/mapping/quantised_targets.h"

#include <algorithm>
#include <set>
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "weightloom/base/glob.h"
#include "weightloom/base/quote.h"
#include "weightloom/codec/cast.h"
#include "weightloom/layout/operations.h"
#include "weightloom/mapping/companion_names_internal.h"
#include "weightloom/mapping/encode_rules_internal.h"
#include "weightloom/mapping/quant_config_internal.h"
#include "weightloom/mapping/quantised_search_internal.h"

namespace weightloom {
namespace {

constexpr int64_t kGroup = 32;       // values of MXFP4 that share a scale
constexpr int64_t kGroupBytes = 16;  // and the bytes that they take
constexpr QuantBlock kUsualBlock{128, 128};
constexpr std::string_view kGptOss = "gpt_oss";

bool is_gpt_oss(const ModelConfig& config) {
  return config.model_type() == kGptOss || config.text_at("text_config.model_type") == kGptOss;
}

bool is_gpt_oss_stack(std::string_view name, const Shape& shape) {
  const bool is_named = name.ends_with(".gate_up_proj") || name.ends_with(".down_proj");
  return is_named && is_expert_stack(name, shape);
}

/// The choice of what is encoded, and what comes of it.
class EncodeSearch {
 public:
  EncodeSearch(const ModelConfig& config, std::span<const TargetTensor> targets,
               const EncodeRules& rules)
      : config_(config),
        declared_(read_quant_config(config)),
        targets_(targets),
        rules_(rules),
        excluded_(declared_.excluded) {}

  EncodedTargets run() && {
    if (!check_scheme()) return std::move(result_);
    for (size_t i = 0; i < targets_.size(); ++i) by_name_.emplace(targets_[i].name, i);
    if (rules_.names) {
      choose_named();
    } else {
      choose_by_rule();
    }
    std::ranges::sort(result_.tensors, {}, &EncodedTensor::target);
    if (result_.tensors.empty() && result_.findings.empty()) {
      refuse("encode_nothing", "",
             fmt::format("nothing is to be quantised as {}: no target is a matrix that its rules "
                         "name; say which by a record, or leave fewer out",
                         to_string(rules_.scheme)));
    }
    check_names();
    result_.config = config_text();
    return std::move(result_);
  }

 private:
  void refuse(std::string code, const std::string& tensor, std::string message) {
    result_.findings.push_back({Severity::error, std::move(code), tensor, "", std::move(message)});
  }

  /// What is read of the config must be sound, and mxfp4 has a form of GPT-OSS only.
  bool check_scheme() {
    const bool reads_block = declared_.method == QuantMethod::fp8;
    if (reads_block) result_.findings = declared_.findings;
    const bool has_form =
        rules_.scheme != EncodeScheme::mxfp4 || rules_.names || is_gpt_oss(config_);
    if (!has_form) {
      refuse("unknown_scheme", "",
             fmt::format("mxfp4 is known for model_type 'gpt_oss', but config.json says {}; use "
                         "fp8-block",
                         quote(config_.model_type())));
    }
    return result_.findings.empty();
  }

  bool is_kept(const std::string& name) const {
    return std::ranges::any_of(rules_.keep,
                               [&](const std::string& glob) { return glob_matches(glob, name); });
  }

  bool is_chosen(const TargetTensor& target) {
    const bool is_matrix =
        rules_.scheme == EncodeScheme::mxfp4
            ? is_gpt_oss_stack(target.name, target.shape)
            : is_linear(target.name, target.shape) || is_expert_stack(target.name, target.shape);
    return is_matrix && is_castable(target.dtype) && !is_kept(target.name) &&
           !excluded_.match(module_of(target.name));
  }

  void choose_by_rule() {
    for (size_t i = 0; i < targets_.size(); ++i) {
      if (is_chosen(targets_[i])) encode(i);
    }
  }

  void choose_named() {
    std::unordered_set<std::string_view> done;
    for (const std::string& name : *rules_.names) {
      if (!done.insert(name).second) continue;
      const auto found = by_name_.find(name);
      if (found == by_name_.end()) {
        refuse("encode_refused", name,
               fmt::format("{} is to be quantised, but no target is called so", quote(name)));
      } else if (!is_castable(targets_[found->second].dtype)) {
        refuse("encode_refused", name,
               fmt::format("{} is to be quantised, but is {}", quote(name),
                           to_string(targets_[found->second].dtype)));
      } else {
        encode(found->second);
      }
    }
  }

  void encode(size_t target) {
    if (rules_.scheme == EncodeScheme::mxfp4) {
      encode_mxfp4(target);
    } else {
      encode_fp8(target);
    }
  }

  QuantBlock block() const {
    const bool is_declared = declared_.method == QuantMethod::fp8 && declared_.block;
    return is_declared ? *declared_.block : kUsualBlock;
  }

  /// What all encoded tensors have alike.
  EncodedTensor encoded(size_t target, BlockFormat format, const QuantBlock& shared) const {
    EncodedTensor tensor;
    tensor.target = target;
    tensor.codec.format = format;
    tensor.codec.block_rows = shared.rows;
    tensor.codec.block_cols = shared.cols;
    return tensor;
  }

  void encode_fp8(size_t target) {
    const auto& [name, dtype, shape] = targets_[target];
    if (shape.size() < 2) {
      return refuse(
          "encode_refused", name,
          fmt::format("{} is {}, but blocks need rows and columns", quote(name), to_string(shape)));
    }
    EncodedTensor tensor = encoded(target, BlockFormat::fp8, block());
    tensor.codec.code_dtype = DType::F8_E4M3;
    tensor.codec.scale_dtype = DType::F32;
    tensor.coded_shape = shape;
    tensor.layout = identity(0, shape);
    const Shape grid = grid_of(shape, block());
    tensor.parts = {{name, DType::F8_E4M3, shape, shape},
                    {name + "_scale_inv", DType::F32, grid, grid}};
    result_.tensors.push_back(std::move(tensor));
  }

  void encode_mxfp4(size_t target) {
    const auto& [name, dtype, shape] = targets_[target];
    if (shape.size() != 3 || shape[1] % kGroup != 0) {
      return refuse("encode_refused", name,
                    fmt::format("{} is {}, but mxfp4 needs [experts, in, out], and as 'in' a "
                                "multiple of 32",
                                quote(name), to_string(shape)));
    }
    EncodedTensor tensor = encoded(target, BlockFormat::e2m1, {1, kGroup});
    tensor.codec.code_dtype = DType::U8;
    tensor.codec.scale_dtype = DType::F8_E8M0;
    tensor.coded_shape = {shape[0], shape[2], shape[1]};
    tensor.layout = transpose(identity(0, shape), 1, 2);
    const int64_t groups = shape[1] / kGroup;
    const Shape grid = {shape[0], shape[2], groups};
    tensor.parts = {{name + "_blocks",
                     DType::U8,
                     {shape[0], shape[2], groups, kGroupBytes},
                     {shape[0], shape[2], groups * kGroupBytes}},
                    {name + "_scales", DType::U8, grid, grid}};
    result_.tensors.push_back(std::move(tensor));
  }

  /// What is stored may not be called as another target.
  void check_names() {
    for (const EncodedTensor& tensor : result_.tensors) {
      for (const EncodedPart& part : tensor.parts) {
        const auto found = by_name_.find(part.name);
        if (found == by_name_.end() || found->second == tensor.target) continue;
        refuse("encode_refused", part.name,
               fmt::format("{} is to be stored as {}, but a target is called so",
                           quote(targets_[tensor.target].name), quote(part.name)));
      }
    }
  }

  /// The modules whose matrices stay as they are, and what else the config leaves out, unless it is
  /// encoded all the same (since a record says so).
  std::vector<std::string> kept_modules() {
    std::vector<bool> is_encoded(targets_.size(), false);
    std::vector<std::string_view> encoded;
    for (const EncodedTensor& tensor : result_.tensors) {
      is_encoded[tensor.target] = true;
      encoded.push_back(module_of(targets_[tensor.target].name));
    }
    const auto still_true = excluded_.without_those_of(encoded);
    std::set<std::string> kept(still_true.begin(), still_true.end());
    for (size_t i = 0; i < targets_.size(); ++i) {
      const std::string& name = targets_[i].name;
      const bool is_matrix = targets_[i].shape.size() == 2 && name.ends_with(".weight");
      const bool is_stack = is_expert_stack(name, targets_[i].shape);
      if (!is_encoded[i] && (is_matrix || is_stack)) kept.emplace(module_of(name));
    }
    return {kept.begin(), kept.end()};
  }

  std::string config_text() {
    nlohmann::ordered_json json;
    if (rules_.scheme == EncodeScheme::fp8_block) {
      json["activation_scheme"] = "dynamic";
      json["fmt"] = "e4m3";
    }
    json["modules_to_not_convert"] = kept_modules();
    json["quant_method"] = rules_.scheme == EncodeScheme::mxfp4 ? "mxfp4" : "fp8";
    if (rules_.scheme == EncodeScheme::fp8_block) {
      json["weight_block_size"] = {block().rows, block().cols};
    }
    return json.dump();
  }

  const ModelConfig& config_;
  QuantConfig declared_;
  std::span<const TargetTensor> targets_;
  const EncodeRules& rules_;
  ExcludedModules excluded_;
  std::unordered_map<std::string_view, size_t> by_name_;
  EncodedTargets result_;
};

}  // namespace

std::string_view to_string(EncodeScheme scheme) {
  return scheme == EncodeScheme::mxfp4 ? "mxfp4" : "fp8-block";
}

EncodedTargets encode_targets(const ModelConfig& config, std::span<const TargetTensor> targets,
                              const EncodeRules& rules) {
  return EncodeSearch(config, targets, rules).run();
}

}  // namespace weightloom
