// Conversion operations: what a WeightConverter does to the tensors it collected, as layout
// operations.
//
// A chain works on slots. At first there is one slot per source pattern, holding the tensor it
// matched, or, where the pattern collects over `*`, the list of them by index. Each operation takes
// all slots and gives all slots; at the end there is one slot per target pattern, holding a list
// where that pattern enumerates over `*`.
//
// Sizes and counts are numbers or keys of config.json (config_number.h): declared, never taken from
// shapes. Own operations derive from ConversionOperation; operation_makers.h gives them a JSON
// form.
//
// Source: the specification "Dynamic weight loading", section on conversion operations.
// Thread safety: immutable; shared by pointer.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "weightloom/base/export.h"
#include "weightloom/layout/layout.h"
#include "weightloom/mapping/config_number.h"
#include "weightloom/mapping/model_config.h"

namespace weightloom WEIGHTLOOM_EXPORT {

/// What stands in one place of a chain.
struct Slot {
  std::vector<Layout> items;  ///< one unless is_list
  bool is_list = false;       ///< holds a list by index, not one tensor
  /// Of the source (at first) or target (once known), for messages and for operations that act by
  /// name (PermuteForRope).
  std::string pattern;
};

/// What an operation may know besides the tensors.
struct OperationContext {
  const ModelConfig* config = nullptr;       ///< never null while a chain runs
  int targets = 1;                           ///< number of target patterns of the converter
  std::vector<std::string> target_patterns;  ///< of the converter
};

/// How many items the lists that an operation takes must have, and the config key that says so.
struct ListLength {
  std::string key;     ///< of config.json
  int64_t length = 0;  ///< that it says
};

/// Sizes of the blocks of a tensor, one per dim, that share one element of a companion (a scale).
/// kWholeDim: one block along the whole dim.
using BlockShape = std::vector<int64_t>;
inline constexpr int64_t kWholeDim = 0;  ///< A block along the whole dim.

struct OnBlocks;

/// One step of a converter's chain, and its reverse.
class ConversionOperation {
 public:
  virtual ~ConversionOperation() = default;
  /// "Chunk", "MergeModulelist", …, as in the JSON form.
  virtual std::string name() const = 0;
  /// Errors: with shapes and numbers, without the converter's name, which the caller adds. The code
  ///         of the error's finding says what is wrong: shape_mismatch, count_mismatch, ….
  virtual std::vector<Slot> apply(std::vector<Slot> slots,
                                  const OperationContext& context) const = 0;
  /// The operation that undoes this one on what this one produced.
  virtual std::shared_ptr<const ConversionOperation> reverse() const = 0;
  /// What the config says of the lists that apply() takes; nothing: any length will do.
  virtual std::optional<ListLength> list_length(const ModelConfig& config) const;
  /// What this operation, given `slots`, does to tensors that have one element per block of each of
  /// them. Errors: companion_refused, with the numbers, if a block would be cut or mixed. By
  ///         default: refused.
  virtual OnBlocks on_blocks(const std::vector<Slot>& slots, const BlockShape& block,
                             const OperationContext& context) const;
  /// The JSON object of the mapping file form, as text: {"op": "Chunk", "dim": 0}.
  virtual std::string to_json() const = 0;
};

/// Operations are shared and never change.
using OperationPtr = std::shared_ptr<const ConversionOperation>;

/// An operation on a grid of blocks, and the blocks of what it gives.
struct OnBlocks {
  OperationPtr operation;  ///< what is done to the grid
  BlockShape block;        ///< of what it gives
};

/// What an own operation throws when it cannot do its work: apply_mapping completes the message
/// with the converter and its tensors, and lists it with the other findings under `code`.
[[noreturn]] void refuse_operation(std::string_view code, const std::string& message);

// The makers throw mapping for a parameter that makes no sense, such as a negative dim.

/// torch.chunk's job into equal parts: one per target pattern, or a list of `num_shards` parts for
/// one target that enumerates. Refuses a dim that does not divide.
OperationPtr make_chunk(int dim, std::optional<ConfigNumber> num_shards = {});
/// Parts of given sizes, one per target pattern.
OperationPtr make_split(int dim, std::vector<ConfigNumber> sizes);
/// All slots, in order, into one. Its reverse is Chunk; Split when `sizes` says how long each part
/// is; Chunk into a list when `num_shards` says of how many one list is made.
OperationPtr make_concatenate(int dim, std::vector<ConfigNumber> sizes = {},
                              std::optional<ConfigNumber> num_shards = {});
/// De-interleaves pairs: out[j·D/2 + i] = in[2i + j]; inverse: the other way.
OperationPtr make_interleave(int dim, bool inverse);
/// Stacks each slot's list along a new dim. `count`: how many items the list must have; the first
/// that the config tells counts.
OperationPtr make_merge_modulelist(int dim, std::vector<ConfigNumber> count = {});
/// Splits each slot's tensor along `dim` into a list.
OperationPtr make_split_modulelist(int dim, std::vector<ConfigNumber> count = {});
/// np.swapaxes of each tensor.
OperationPtr make_transpose(int dim0, int dim1);
/// As make_transpose, but a tensor that has the shape that the model wants already stays as it is:
/// `wanted` declares that shape. Refuses a tensor that has it neither way, and one whose two dims
/// are wanted equal, since it does not tell which way it is stored. Backwards it stays as the model
/// has it, which forwards is read too: only a record tells which way the original was.
OperationPtr make_checked_transpose(int dim0, int dim1, std::vector<ConfigNumber> wanted,
                                    bool backwards = false);

/// One dim as several, row-major: torch's Unflatten. One of the sizes may be -1: what the others
/// leave. With it, parts that lie inside a dim (q, k and v of each group of heads) can be split.
OperationPtr make_unflatten(int dim, std::vector<ConfigNumber> sizes);
/// Several dims, from `dim` on, as one: the reverse of make_unflatten with the same sizes.
OperationPtr make_flatten(int dim, std::vector<ConfigNumber> sizes);

/// Rows of each head from interleaved to half-split rotary order: with n heads and h = rows/n/2,
/// out[(a, j, i)] = in[(a, i, j)], i < h, j < 2.
struct RopeParameters {
  ConfigNumber num_heads{"num_attention_heads"};  ///< how many heads a tensor has
  /// Number of heads of the tensors whose pattern holds a text ("k_proj"), where it is another.
  /// With it, other tensors stay as they are, unless `permute_layer_names` holds them.
  std::vector<std::pair<std::string, ConfigNumber>> num_heads_of{};
  /// "vision_config": where keys are looked up; empty, or not in config.json: the root.
  std::string subconfig_key{};
  /// Empty: every tensor; else those whose pattern holds one of these.
  std::vector<std::string> permute_layer_names{};
  bool inverse = false;  ///< from half-split to interleaved
};
/// Reorders the rows of query and key projections.
OperationPtr make_permute_for_rope(RopeParameters parameters);

}  // namespace weightloom
