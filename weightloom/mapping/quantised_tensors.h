// Which tensors of a checkpoint are quantised, by what its config declares and how its tensors are
// named: each with its codec and all that stands beside it. A tensor and its companions become one
// named tensor of values, before any rule of a mapping sees a name.
//
// Nothing is guessed from shapes: block sizes, groups and packing are declared, and shapes are held
// against them. Thread safety: values and pure functions.
#pragma once

#include <cstddef>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "weightloom/base/error.h"
#include "weightloom/base/export.h"
#include "weightloom/codec/block_codec.h"
#include "weightloom/layout/layout.h"
#include "weightloom/mapping/apply.h"
#include "weightloom/mapping/model_config.h"

namespace weightloom WEIGHTLOOM_EXPORT {

/// What a codec takes: a leaf, or what an earlier tensor of the list makes.
struct QuantisedOperand {
  size_t place = 0;      ///< into the leaves, or into QuantisedTensors::tensors
  bool is_made = false;  ///< of the list, not a leaf
  Shape shape;           ///< to see it in: as many leading dims as the values have, rows, columns
};

/// A tensor of values that codes and companions stand for.
struct QuantisedTensor {
  /// As the checkpoint would spell it if it were not quantised; "" if it is only an operand of a
  /// later one.
  std::string name;
  BlockCodec codec;                        ///< how values are made
  Shape coded_shape;                       ///< of what the codec makes: leading dims, rows, columns
  Layout layout;                           ///< of the tensor, over source 0: what the codec makes
  std::vector<QuantisedOperand> operands;  ///< as operands_of(codec)
};

/// What find_quantised gives.
struct QuantisedTensors {
  std::vector<QuantisedTensor> tensors;  ///< operands before what takes them
  std::vector<bool> consumed;            ///< per leaf: it is an operand, or left out with one
  std::vector<Finding> findings;         ///< all of them
};

/// The bytes of a small leaf, whose values declare something (a shape, a state in JSON).
using ReadLeaf = std::function<std::string(size_t leaf)>;

/// All that is quantised of `leaves`. Findings:
///   scale_missing       a quantised tensor without a companion that its scheme needs (error)
///   scale_alone         a companion without its tensor (error)
///   scale_grid          a companion whose shape does not fit the declared blocks: both shapes
///   (error) unknown_scheme      config.json names a scheme that is not known, or does not declare
///   enough,
///                       or a tensor has the dtype of codes and nothing says of which scheme
///                       (error)
///   unknown_companion   a tensor named like a companion that the scheme does not know (error)
///   companion_dropped   scales of activations, which values do not need (report; one for all)
QuantisedTensors find_quantised(const ModelConfig& config, std::span<const NamedLayout> leaves,
                                const ReadLeaf& read);

}  // namespace weightloom
