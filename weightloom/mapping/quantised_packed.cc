// compressed-tensors: which group a module belongs to, and the forms of its weight: integers packed
// in I32, pairs of 4-bit floats in U8, I8 and FP8 codes.
// Source: compressed-tensors 0.20.1, compressors/{pack_quantized,naive_quantized,nvfp4,mxfp4,mxfp8}.
#include <algorithm>
#include <iterator>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "weightloom/base/checked.h"
#include "weightloom/base/quote.h"
#include "weightloom/layout/operations.h"
#include "weightloom/mapping/companion_names_internal.h"
#include "weightloom/mapping/quantised_e2m1_internal.h"
#include "weightloom/mapping/quantised_fp8_internal.h"
#include "weightloom/mapping/quantised_groups_internal.h"

namespace weightloom {
namespace {

constexpr std::string_view kPacked = "_packed";
constexpr int64_t kMaxDims = 8;

/// The block of values that share a scale.
QuantBlock block_of(const WeightArgs& args) {
  switch (args.strategy) {
    case QuantStrategy::tensor:
      return {kEntireDim, kEntireDim};
    case QuantStrategy::channel:
      return {1, kEntireDim};
    case QuantStrategy::group:
      return {1, args.group_size};
    case QuantStrategy::block:
      return args.block;
  }
  return {};
}

/// The shapes of a scale, the plain one first.
std::vector<Shape> scale_shapes(const Shape& values, const QuantBlock& block) {
  const Shape grid = grid_of(values, block);
  std::vector<Shape> shapes = {grid};
  if (block.cols == kEntireDim) shapes.emplace_back(grid.begin(), grid.end() - 1);
  const bool is_one = block.rows == kEntireDim && block.cols == kEntireDim;
  if (is_one) shapes.emplace_back(grid.begin(), grid.end() - 2);
  return shapes;
}

/// One tensor of integers packed in I32.
class PackedTensor {
 public:
  PackedTensor(QuantisedSearch& search, std::string name, size_t codes, const WeightArgs& args)
      : search_(search), name_(std::move(name)), codes_(codes), args_(args) {}

  void make() {
    const auto scale = search_.take_needed(name_ + "_scale", name_);
    const auto shape = search_.take_needed(name_ + "_shape", name_);
    const auto zeros = zero_points();
    const auto order = search_.take_if_there(name_ + "_g_idx");
    if (!scale || !shape || !is_expressible() || (!args_.symmetric && !zeros)) return;
    if (!read_shape(*shape) || !check_codes() || !add_scale(*scale)) return;
    if (zeros && !add_zero_points(*zeros)) return;
    if (order && !is_in_order(*order)) return;
    QuantisedTensor& tensor = tensor_;
    tensor.name = name_;
    tensor.coded_shape = values_;
    tensor.layout = identity(0, values_);
    search_.add(std::move(tensor));
  }

 private:
  std::optional<size_t> zero_points() {
    const std::string name = name_ + "_zero_point";
    return args_.symmetric ? std::nullopt : search_.take_needed(name, name_);
  }

  void refuse_scheme(const std::string& why) {
    search_.refuse("unknown_scheme", name_, fmt::format("{} {}", quote(name_), why));
  }

  bool is_expressible() {
    const bool are_bits_known = args_.bits == 4 || args_.bits == 8;
    if (!are_bits_known) {
      refuse_scheme(fmt::format("is packed in {} bits; known are 4 and 8", args_.bits));
    }
    const bool is_per_row =
        args_.strategy == QuantStrategy::group || args_.strategy == QuantStrategy::channel;
    if (!args_.symmetric && !is_per_row) {
      refuse_scheme("has zero points, which are known for the strategies group and channel");
      return false;
    }
    return are_bits_known;
  }

  /// The values' shape stands in a tensor of its own.
  bool read_shape(size_t leaf) {
    if (!search_.expect_dtype(leaf, {DType::I64, DType::I32}, name_)) return false;
    const Shape& stored = search_.shape(leaf);
    const bool is_list = stored.size() == 1 && stored[0] >= 2 && stored[0] <= kMaxDims;
    if (is_list) values_ = search_.integers_of(leaf);
    const bool is_sound = is_list && checked_elements(values_).has_value() &&
                          static_cast<int64_t>(values_.size()) == stored[0];
    if (is_sound) return true;
    search_.refuse("scale_grid", search_.name(leaf),
                   fmt::format("{} {} does not hold a shape: {}", quote(search_.name(leaf)),
                               to_string(stored), to_string(values_)));
    return false;
  }

  /// Words that hold so many fields.
  int64_t words(int64_t fields) const { return ceil_div(fields, 32 / args_.bits); }

  std::string shown() const {
    return fmt::format("{} {} of {} bits", quote(name_), to_string(values_), args_.bits);
  }

  bool check_codes() {
    Shape needed = values_;
    needed.back() = words(values_.back());
    if (!search_.expect_shape(codes_, {needed}, shown())) return false;
    tensor_.operands.push_back(operand_of(codes_, needed));
    return true;
  }

  bool add_scale(size_t leaf) {
    using enum DType;
    const QuantBlock block = block_of(args_);
    if (!search_.expect_dtype(leaf, {F32, BF16, F16}, name_)) return false;
    const auto because = in_blocks(name_, values_, block);
    if (!search_.expect_shape(leaf, scale_shapes(values_, block), because)) return false;
    BlockCodec& codec = tensor_.codec;
    codec.format = BlockFormat::packed;
    codec.code_dtype = I32;
    codec.scale_dtype = search_.dtype(leaf);
    codec.bits = static_cast<int>(args_.bits);
    codec.block_rows = block.rows;
    codec.block_cols = block.cols;
    grid_ = grid_of(values_, block);
    tensor_.operands.push_back(operand_of(leaf, grid_));
    return true;
  }

  /// Packed along the rows, as many columns as scales have.
  bool add_zero_points(size_t leaf) {
    Shape needed = grid_;
    needed[needed.size() - 2] = words(grid_[grid_.size() - 2]);
    const auto because = fmt::format("zero points of {}", shown());
    if (!search_.expect_dtype(leaf, {DType::I32}, name_)) return false;
    if (!search_.expect_shape(leaf, {needed}, because)) return false;
    tensor_.codec.zero_points = true;
    tensor_.operands.push_back(operand_of(leaf, needed));
    return true;
  }

  /// Columns that are grouped in another order than theirs are not known.
  bool is_in_order(size_t leaf) {
    const int64_t size = args_.strategy == QuantStrategy::group ? args_.group_size : values_.back();
    const auto one_a_column = fmt::format("one for each column of {}", shown());
    if (!search_.expect_dtype(leaf, {DType::I32, DType::I64}, name_)) return false;
    if (!search_.expect_shape(leaf, {{values_.back()}}, one_a_column)) return false;
    const auto groups = search_.integers_of(leaf);
    bool in_order = static_cast<int64_t>(groups.size()) == values_.back();
    for (size_t i = 0; in_order && i < groups.size(); ++i) {
      in_order = groups[i] == static_cast<int64_t>(i) / size;
    }
    if (!in_order)
      refuse_scheme("has columns grouped in another order (g_idx), which is not known");
    return in_order;
  }

  QuantisedSearch& search_;
  std::string name_;
  size_t codes_;
  const WeightArgs& args_;
  Shape values_;
  Shape grid_;
  QuantisedTensor tensor_;
};

void make_pairs(QuantisedSearch& search, const std::string& name, size_t codes,
                const WeightArgs& args) {
  using enum DType;
  const auto scale = search.take_needed(name + "_scale", name);
  E2m1Leaves leaves{.name = name, .codes = codes, .group_size = args.group_size};
  if (args.has_global_scale) {
    leaves.global = GlobalScale::divides;
    leaves.global_scale = search.take_needed(name + "_global_scale", name);
    if (!leaves.global_scale) return;
  }
  if (!scale) return;
  const bool fits = args.has_global_scale ? search.expect_dtype(*scale, {F8_E4M3}, name)
                                          : search.expect_dtype(*scale, {U8, F8_E8M0}, name);
  if (args.strategy != QuantStrategy::group || !args.symmetric) {
    return search.refuse("unknown_scheme", name,
                         fmt::format("{} is pairs of 4-bit floats, which are known in groups "
                                     "without zero points",
                                     quote(name)));
  }
  leaves.scale = *scale;
  if (fits) make_e2m1(search, leaves);
}

/// The zero points of I8 codes, which lie as the scale does; nothing, with a finding, if there are
/// none that fit.
std::optional<size_t> byte_zeros(QuantisedSearch& search, const std::string& name,
                                 const std::vector<Shape>& shapes, const std::string& because) {
  const auto zeros = search.take_needed(name + "_zero_point", name);
  const bool fits = zeros && search.expect_dtype(*zeros, {DType::I8}, name) &&
                    search.expect_shape(*zeros, shapes, because);
  return fits ? zeros : std::nullopt;
}

void make_int8(QuantisedSearch& search, size_t codes, const WeightArgs& args) {
  using enum DType;
  const std::string& name = search.name(codes);
  const auto scale = search.take_needed(name + "_scale", name);
  const QuantBlock block = block_of(args);
  const Shape values = as_matrix(search.shape(codes));
  const Shape grid = grid_of(values, block);
  const auto shapes = scale_shapes(values, block);
  const auto because = in_blocks(name, values, block);
  if (!scale || !search.expect_dtype(*scale, {F32, BF16, F16}, name)) return;
  if (!search.expect_shape(*scale, shapes, because)) return;
  QuantisedTensor tensor;
  tensor.name = name;
  tensor.codec.format = BlockFormat::int8;
  tensor.codec.code_dtype = I8;
  tensor.codec.scale_dtype = search.dtype(*scale);
  tensor.codec.block_rows = block.rows;
  tensor.codec.block_cols = block.cols;
  tensor.coded_shape = values;
  tensor.layout = reshape(identity(0, values), search.shape(codes));
  tensor.operands = {operand_of(codes, values), operand_of(*scale, grid)};
  if (!args.symmetric) {
    const auto zeros = byte_zeros(search, name, shapes, because);
    if (!zeros) return;
    tensor.codec.zero_points = true;
    tensor.operands.push_back(operand_of(*zeros, grid));
  }
  search.add(std::move(tensor));
}

void find_packed(QuantisedSearch& search, GroupChoice& choice) {
  for (size_t leaf = 0; leaf < search.size(); ++leaf) {
    const std::string& packed = search.name(leaf);
    const DType dtype = search.dtype(leaf);
    const bool is_codes = dtype == DType::I32 || dtype == DType::U8;
    if (!is_codes || !packed.ends_with(kPacked) || search.is_taken(leaf)) continue;
    const std::string name = packed.substr(0, packed.size() - kPacked.size());
    search.take(leaf);
    search.know(name);
    const bool are_pairs = dtype == DType::U8;
    const auto form = are_pairs ? CodeForm::pairs : CodeForm::packed;
    const WeightArgs* args = choice.choose(search, name, form);
    if (args == nullptr) continue;
    if (are_pairs) make_pairs(search, name, leaf, *args);
    if (!are_pairs) PackedTensor(search, name, leaf, *args).make();
  }
}

bool is_code_of(const QuantisedSearch& search, size_t leaf, CodeForm form) {
  const DType dtype = search.dtype(leaf);
  if (search.is_taken(leaf) || !companion_matches(search.name(leaf)).empty()) return false;
  if (form == CodeForm::fp8) return dtype == DType::F8_E4M3 || dtype == DType::F8_E5M2;
  return dtype == DType::I8;
}

void find_plain(QuantisedSearch& search, GroupChoice& choice, CodeForm form) {
  for (size_t leaf = 0; leaf < search.size(); ++leaf) {
    if (!is_code_of(search, leaf, form)) continue;
    search.take(leaf);
    search.know(search.name(leaf));
    const WeightArgs* args = choice.choose(search, search.name(leaf), form);
    if (args == nullptr) continue;
    if (form == CodeForm::fp8) make_fp8(search, leaf, block_of(*args));
    if (form == CodeForm::int8) make_int8(search, leaf, *args);
  }
}

}  // namespace

void find_compressed(QuantisedSearch& search) {
  GroupChoice choice(search);
  find_packed(search, choice);
  find_plain(search, choice, CodeForm::fp8);
  find_plain(search, choice, CodeForm::int8);
}

}  // namespace weightloom
