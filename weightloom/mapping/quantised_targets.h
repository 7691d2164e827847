// Which tensors of an output are to be quantised, what they are then called, and what config.json
// is to say of them. Which tensors are Linears is declared by a rule over names, not guessed:
//
//   fp8_block  X of two dims, named *.weight, inside a numbered layer (a component of digits), and
//              X of three dims with a component "experts": codes X (F8_E4M3), scales X_scale_inv
//              (F32), in blocks of the config's weight_block_size, else 128 × 128.
//              Not: embeddings (a component with "embed" or "relative_attention_bias"), norms (with
//              "norm"), heads ("lm_head", "head", "score", "classifier"), routers ("gate",
//              "router", "shared_expert_gate", "e_score…").
//   mxfp4      as GPT-OSS has it, and only for its models (model_type gpt_oss), since orientation
//              is declared nowhere else: experts X [E, in, out], "gate_up_proj" and "down_proj" of
//              a component "experts", become X_blocks (U8) [E, out, in/32, 16] and X_scales (U8)
//              [E, out, in/32]. There is no such form of a single Linear: those stay as they are.
//
// Neither: what the config's list of modules left out matches, as Transformers matches it, and what
// the caller's globs keep. Where the names are given (a record of what was quantised), exactly
// those.
// Thread safety: values and pure functions.
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "weightloom/base/dtype.h"
#include "weightloom/base/error.h"
#include "weightloom/base/export.h"
#include "weightloom/base/shape.h"
#include "weightloom/codec/block_codec.h"
#include "weightloom/layout/layout.h"
#include "weightloom/mapping/model_config.h"

namespace weightloom WEIGHTLOOM_EXPORT {

/// Schemes that values can be brought into.
enum class EncodeScheme { fp8_block, mxfp4 };

/// "fp8-block", "mxfp4": as the command line spells them.
std::string_view to_string(EncodeScheme scheme);

/// A tensor of values that might be quantised.
struct TargetTensor {
  std::string name;          ///< whole
  DType dtype = DType::F32;  ///< of its values
  Shape shape;               ///< of its values
};

/// What is asked for.
struct EncodeRules {
  EncodeScheme scheme = EncodeScheme::fp8_block;  ///< what they become
  std::vector<std::string> keep{};                ///< globs over names: these stay as they are
  /// Exactly these, whatever the rules above say; nothing: the rules.
  std::optional<std::vector<std::string>> names{};
};

/// A tensor that an encoded one is stored as.
struct EncodedPart {
  std::string name;         ///< whole
  DType dtype = DType::U8;  ///< as stored
  Shape shape;              ///< as stored
  Shape
      shape_over_values;  ///< the same elements as the codec sees them: leading dims, rows, columns
};

/// A target that is to be encoded.
struct EncodedTensor {
  size_t target = 0;               ///< its place in the list
  BlockCodec codec;                ///< encodes it
  Shape coded_shape;               ///< of what the codec takes: leading dims, rows, columns
  Layout layout;                   ///< of what the codec takes, over source 0: the target's values
  std::vector<EncodedPart> parts;  ///< as operands_of(codec)
};

/// What encode_targets gives.
struct EncodedTargets {
  std::vector<EncodedTensor> tensors;  ///< in the targets' order
  /// JSON: what config.json is to have as "quantization_config". Its list of modules that are not
  /// converted names every module whose matrix stays as it is.
  std::string config;
  std::vector<Finding> findings;  ///< all of them
};

/// What of `targets` is encoded, and how. Findings:
///   unknown_scheme    the config does not declare what is needed, or the scheme has no form for
///                     this model (error)
///   encode_refused    a named tensor that is no target or that the scheme cannot hold, a target
///                     whose rows do not fill blocks of 32, a name that is taken (error)
///   encode_nothing    nothing is to be encoded (error)
EncodedTargets encode_targets(const ModelConfig& config, std::span<const TargetTensor> targets,
                              const EncodeRules& rules);

}  // namespace weightloom
