// Pairs of 4-bit floats: MXFP4 as GPT-OSS stores it, DeepSeek-V4's experts, NVFP4 and MXFP4 of
// single matrices.
#include <array>
#include <utility>

#include <fmt/format.h>

#include "weightloom/base/checked.h"
#include "weightloom/base/quote.h"
#include "weightloom/layout/operations.h"
#include "weightloom/mapping/companion_names_internal.h"
#include "weightloom/mapping/quantised_e2m1_internal.h"
#include "weightloom/mapping/quantised_fp8_internal.h"

namespace weightloom {
namespace {

/// The shape of the values of pairs; nothing if there are not two dims, or too many values.
std::optional<Shape> values_of(QuantisedSearch& search, size_t codes) {
  Shape shape = search.shape(codes);
  const auto cols = shape.size() < 2 ? std::nullopt : checked_mul(shape.back(), 2);
  if (cols) shape.back() = *cols;
  if (cols && checked_elements(shape)) return shape;
  search.refuse("scale_grid", search.name(codes),
                fmt::format("{} is {}, but pairs of 4-bit floats need rows and columns",
                            quote(search.name(codes)), to_string(search.shape(codes))));
  return std::nullopt;
}

BlockCodec e2m1_codec(DType scale_dtype, int64_t group_size) {
  BlockCodec codec;
  codec.format = BlockFormat::e2m1;
  codec.code_dtype = DType::U8;
  codec.scale_dtype = scale_dtype_of(scale_dtype);
  codec.block_rows = 1;
  codec.block_cols = group_size;
  return codec;
}

/// The shapes of a scale for each matrix: all 1 behind the leading dims.
std::vector<Shape> per_matrix(const Shape& values) {
  const Shape lead(values.begin(), values.end() - 2);
  std::vector<Shape> shapes = {with_matrix(values, 1, 1), lead};
  shapes.push_back(lead);
  shapes.back().push_back(1);
  return shapes;
}

/// Adds the global scale; one for a stack makes all its rows one matrix.
bool add_global_scale(QuantisedSearch& search, const E2m1Leaves& leaves, QuantisedTensor& tensor) {
  if (!leaves.global_scale) return true;
  const size_t leaf = *leaves.global_scale;
  tensor.codec.global_scale = leaves.global;
  if (!search.expect_dtype(leaf, {DType::F32}, leaves.name)) return false;
  const Shape& values = tensor.coded_shape;
  if (elements(search.shape(leaf)) == 1) {
    for (QuantisedOperand& operand : tensor.operands) operand.shape = folded(operand.shape);
    tensor.coded_shape = folded(values);
    tensor.operands.push_back(operand_of(leaf, {1, 1}));
    return true;
  }
  const auto because =
      fmt::format("one for each matrix of {} {}", quote(leaves.name), to_string(values));
  if (!search.expect_shape(leaf, per_matrix(values), because)) return false;
  tensor.operands.push_back(operand_of(leaf, with_matrix(values, 1, 1)));
  return true;
}

/// Bytes that are no companion: a weight, or what has a scale.
bool is_pair_codes(const QuantisedSearch& search, const std::string& name) {
  if (!companion_matches(name).empty()) return false;
  return name.ends_with(".weight") || search.find(name + "_scale").has_value();
}

/// The tensor whose name is that of its blocks without "_blocks".
void make_gpt_oss(QuantisedSearch& search, size_t codes, const std::string& name) {
  search.take(codes);
  search.know(name);
  const auto scales = search.take_needed(name + "_scales", name);
  const bool is_known = search.expect_dtype(codes, {DType::U8}, name) && scales &&
                        search.expect_dtype(*scales, {DType::U8, DType::F8_E8M0}, name);
  if (!is_known) return;
  constexpr int64_t kBytes = 16;  // of a group of 32
  const Shape& shape = search.shape(codes);
  if (shape.size() != 4 || shape[3] != kBytes) {
    return search.refuse("scale_grid", search.name(codes),
                         fmt::format("{} is {}, but blocks are [experts, rows, groups, 16]",
                                     quote(search.name(codes)), to_string(shape)));
  }
  const Shape grid = {shape[0], shape[1], shape[2]};
  const auto because = fmt::format("{} {}", quote(search.name(codes)), to_string(shape));
  if (!search.expect_shape(*scales, {grid}, because)) return;
  QuantisedTensor tensor;
  tensor.name = name;
  tensor.codec = e2m1_codec(DType::F8_E8M0, 2 * kBytes);
  tensor.coded_shape = with_matrix(grid, shape[1], 2 * kBytes * shape[2]);
  tensor.layout = transpose(identity(0, tensor.coded_shape), 1, 2);
  tensor.operands = {operand_of(codes, with_matrix(grid, shape[1], kBytes * shape[2])),
                     operand_of(*scales, grid)};
  search.add(std::move(tensor));
}

void refuse_lone_scales(QuantisedSearch& search) {
  for (size_t leaf = 0; leaf < search.size(); ++leaf) {
    const std::string& name = search.name(leaf);
    const bool is_lone = search.dtype(leaf) == DType::U8 && name.ends_with("_scales");
    if (!is_lone || search.is_taken(leaf)) continue;
    search.know(name);
    search.refuse(
        "scale_alone", name,
        fmt::format("{} stands without its blocks, which would be called '…_blocks'", quote(name)));
  }
}

}  // namespace

void make_e2m1(QuantisedSearch& search, const E2m1Leaves& leaves) {
  const auto values = values_of(search, leaves.codes);
  if (!values) return;
  const QuantBlock block{1, leaves.group_size};
  const Shape grid = grid_of(*values, block);
  if (!search.expect_shape(leaves.scale, {grid}, in_blocks(leaves.name, *values, block))) return;
  QuantisedTensor tensor;
  tensor.name = leaves.name;
  tensor.codec = e2m1_codec(search.dtype(leaves.scale), leaves.group_size);
  tensor.coded_shape = *values;
  tensor.operands = {operand_of(leaves.codes, search.shape(leaves.codes)),
                     operand_of(leaves.scale, grid)};
  if (!add_global_scale(search, leaves, tensor)) return;
  tensor.layout = reshape(identity(0, tensor.coded_shape), *values);
  search.add(std::move(tensor));
}

void find_gpt_oss(QuantisedSearch& search) {
  constexpr std::string_view kBlocks = "_blocks";
  for (size_t leaf = 0; leaf < search.size(); ++leaf) {
    const std::string& name = search.name(leaf);
    if (!name.ends_with(kBlocks) || search.is_taken(leaf)) continue;
    make_gpt_oss(search, leaf, name.substr(0, name.size() - kBlocks.size()));
  }
  refuse_lone_scales(search);
}

void find_nvfp4(QuantisedSearch& search) {
  for (size_t leaf = 0; leaf < search.size(); ++leaf) {
    const std::string& name = search.name(leaf);
    if (search.dtype(leaf) != DType::U8 || search.is_taken(leaf)) continue;
    if (!is_pair_codes(search, name)) continue;
    search.take(leaf);
    search.know(name);
    const auto scale = search.take_needed(name + "_scale", name);
    const auto global = search.take_needed(name + "_scale_2", name);
    if (!scale || !global || !search.expect_dtype(*scale, {DType::F8_E4M3}, name)) continue;
    make_e2m1(search,
              {name, leaf, *scale, global, GlobalScale::multiplies, search.config().group_size});
  }
}

void find_fp4_experts(QuantisedSearch& search) {
  if (!search.config().fp4_experts) return;
  for (size_t leaf = 0; leaf < search.size(); ++leaf) {
    const DType dtype = search.dtype(leaf);
    const bool is_byte = dtype == DType::I8 || dtype == DType::U8;
    const std::string& name = search.name(leaf);
    if (!is_byte || search.is_taken(leaf) || !is_pair_codes(search, name)) continue;
    search.take(leaf);
    search.know(name);
    const auto scale = take_scale(search, leaf);
    const bool is_known =
        scale && search.expect_dtype(*scale, {DType::F8_E8M0, DType::U8, DType::F32}, name);
    if (is_known) make_e2m1(search, {.name = name, .codes = leaf, .scale = *scale});
  }
}

}  // namespace weightloom
