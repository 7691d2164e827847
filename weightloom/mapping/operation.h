// Conversion operations: what a WeightConverter does to the tensors it collected, as layout
// operations.
//
// A chain works on slots. At first there is one slot per source pattern, holding the tensor it
// matched, or, where the pattern collects over `*`, the list of them by index. Each operation takes
// all slots and gives all slots; at the end there is one slot per target pattern, holding a list
// where that pattern enumerates over `*`.
//
// Source: the specification "Dynamic weight loading", section on conversion operations.
// Thread safety: immutable; shared by pointer.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "weightloom/base/export.h"
#include "weightloom/layout/layout.h"
#include "weightloom/mapping/model_config.h"

namespace weightloom WEIGHTLOOM_EXPORT {

struct Slot {
  std::vector<Layout> items;  // one unless is_list
  bool is_list = false;
  std::string pattern;  // of the source (at first) or target (once known), for messages and
                        // for operations that act by name (PermuteForRope)
};

/// What an operation may know besides the tensors.
struct OperationContext {
  const ModelConfig* config = nullptr;  // never null while a chain runs
  int targets = 1;                      // number of target patterns of the converter
  std::vector<std::string> target_patterns;
};

/// How many items the lists that an operation takes must have, and the config key that says so.
struct ListLength {
  std::string key;
  int64_t length = 0;
};

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
  /// The JSON object of the mapping file form, as text: {"op": "Chunk", "dim": 0}.
  virtual std::string to_json() const = 0;
};

using OperationPtr = std::shared_ptr<const ConversionOperation>;

// The makers throw mapping for a parameter that makes no sense, such as a negative dim.

/// torch.chunk's job into equal parts, one per target pattern. Refuses a dim that does not divide.
OperationPtr make_chunk(int dim);
/// Parts of given sizes, one per target pattern.
OperationPtr make_split(int dim, std::vector<int64_t> sizes);
/// All slots, in order, into one. Its reverse is Chunk, or Split when `sizes` says how long each
/// part is.
OperationPtr make_concatenate(int dim, std::vector<int64_t> sizes = {});
/// De-interleaves pairs: out[j·D/2 + i] = in[2i + j]; inverse: the other way.
OperationPtr make_interleave(int dim, bool inverse);
/// Stacks each slot's list along a new dim. `count` names keys of config.json (first present wins,
/// in the text config too): the list must have that many items.
OperationPtr make_merge_modulelist(int dim, std::vector<std::string> count = {});
/// Splits each slot's tensor along `dim` into a list.
OperationPtr make_split_modulelist(int dim, std::vector<std::string> count = {});
/// np.swapaxes of each tensor. check_dims ("only if the shape differs from the parameter's") needs
/// the model's own shapes, which nothing declares yet: refused as unsupported when applied.
OperationPtr make_transpose(int dim0, int dim1, bool check_dims = false);

/// Rows of each head from interleaved to half-split rotary order: with n heads and h = rows/n/2,
/// out[(a, j, i)] = in[(a, i, j)], i < h, j < 2. `num_heads`: a number, or a key of config.json.
struct RopeParameters {
  /// Used when `num_heads_key` is empty.
  int64_t num_heads = 0;
  /// "num_attention_heads".
  std::string num_heads_key{};
  /// "vision_config": where the key is looked up; empty: the root.
  std::string subconfig_key{};
  /// Empty: every tensor; else those whose pattern holds one of these.
  std::vector<std::string> permute_layer_names{};
  bool inverse = false;
};
OperationPtr make_permute_for_rope(RopeParameters parameters);

}  // namespace weightloom
