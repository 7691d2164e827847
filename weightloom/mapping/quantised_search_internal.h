// The search for what is quantised: leaves by name, what is taken already, what was made, what is
// wrong. The schemes (quantised_….cc) run over it one after the other.
//
// Thread safety: none.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <initializer_list>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "weightloom/mapping/quant_config_internal.h"
#include "weightloom/mapping/quantised_tensors.h"

namespace weightloom {

/// The state of one search; see the top of this file. Borrows all that it is made of.
class QuantisedSearch {
 public:
  QuantisedSearch(const QuantConfig& config, std::span<const NamedLayout> leaves,
                  const ReadLeaf& read);

  const QuantConfig& config() const noexcept { return config_; }
  size_t size() const noexcept { return leaves_.size(); }
  const std::string& name(size_t leaf) const { return leaves_[leaf].name; }
  DType dtype(size_t leaf) const { return leaves_[leaf].dtype; }
  const Shape& shape(size_t leaf) const { return leaves_[leaf].layout.shape(); }
  std::optional<size_t> find(std::string_view name) const;

  /// Each number of a small leaf of I32 or I64, in order.
  std::vector<int64_t> integers_of(size_t leaf) const;
  /// The bytes of a small leaf.
  std::string text_of(size_t leaf) const { return read_(leaf); }

  bool is_taken(size_t leaf) const { return result_.consumed[leaf]; }
  /// Marks a leaf as an operand, or as left out with one.
  void take(size_t leaf) { result_.consumed[leaf] = true; }
  /// The leaf of that name, taken; nothing if there is none.
  std::optional<size_t> take_if_there(const std::string& name);
  /// The same; a finding scale_missing if there is none.
  std::optional<size_t> take_needed(const std::string& name, std::string_view owner);

  /// A finding of that code (an error) about a tensor.
  void refuse(std::string_view code, std::string_view tensor, std::string message);
  /// True if the leaf has one of the dtypes; else a finding unknown_companion.
  bool expect_dtype(size_t leaf, std::initializer_list<DType> dtypes, std::string_view owner);
  /// True if the leaf has one of the shapes; else a finding scale_grid that names the first one:
  /// "'leaf' is [1], but `because` needs [2, 2]".
  bool expect_shape(size_t leaf, const std::vector<Shape>& shapes, std::string_view because);

  /// True if a tensor of that name was made, or refused.
  bool is_known(const std::string& name) const { return known_.contains(name); }
  /// Says that codes of a tensor of that name were found, whatever comes of them.
  void know(const std::string& name) { known_.insert(name); }
  /// Adds a tensor; gives its place. A finding if its name is a leaf's that is not its own operand.
  size_t add(QuantisedTensor tensor);
  bool has_made() const noexcept { return !result_.tensors.empty(); }
  bool has_found() const noexcept { return !known_.empty(); }

  QuantisedTensors& result() noexcept { return result_; }

 private:
  const QuantConfig& config_;
  std::span<const NamedLayout> leaves_;
  const ReadLeaf& read_;
  std::unordered_map<std::string_view, size_t> by_name_;
  std::unordered_set<std::string> known_;
  QuantisedTensors result_;
};

/// The operand that a leaf is, seen in a shape of as many elements.
QuantisedOperand operand_of(size_t leaf, Shape seen);

/// The shape with `rows` and `cols` in place of its last two dims.
/// Precondition: two dims or more.
Shape with_matrix(Shape shape, int64_t rows, int64_t cols);
/// A shape as leading dims, rows, columns: a vector is one row, a scalar one element.
Shape as_matrix(Shape shape);
/// All leading dims and the rows as rows.
Shape folded(const Shape& shape);
/// ⌈size / block⌉; 1 for kEntireDim.
int64_t blocks_in(int64_t size, int64_t block);
/// The grid of blocks over the last two dims.
Shape grid_of(const Shape& shape, const QuantBlock& block);
/// "'x' [130, 200] in blocks of [128, 128]"; a whole dim is "all".
std::string in_blocks(std::string_view name, const Shape& shape, const QuantBlock& block);
/// A scale's dtype as codecs spell it: U8 holds exponents, as F8_E8M0.
DType scale_dtype_of(DType stored);

/// The schemes. Each takes what it knows and leaves the rest.
void find_compressed(QuantisedSearch& search);   ///< compressed-tensors: by groups
void find_gpt_oss(QuantisedSearch& search);      ///< MXFP4 as GPT-OSS stores it
void find_nvfp4(QuantisedSearch& search);        ///< ModelOpt's
void find_fp4_experts(QuantisedSearch& search);  ///< DeepSeek-V4's
void find_word_packed(QuantisedSearch& search);  ///< GPTQ and AWQ
void find_bnb(QuantisedSearch& search);          ///< bitsandbytes
void find_fp8(QuantisedSearch& search);          ///< every FP8 tensor that is left

}  // namespace weightloom
