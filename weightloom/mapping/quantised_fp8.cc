// FP8: a tensor of F8_E4M3 or F8_E5M2 codes, and a scale that is a factor (also where it is called
// "scale_inv"). Each such tensor has one, whatever lists of modules say; a bare cast is never
// meant. Which values share a scale is declared. Where config.json declares nothing, the scale's
// own shape says whether it is one for the tensor or one for each row, and a grid is refused.
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "weightloom/base/quote.h"
#include "weightloom/layout/operations.h"
#include "weightloom/mapping/companion_names_internal.h"
#include "weightloom/mapping/quantised_fp8_internal.h"

namespace weightloom {
namespace {

/// How a scale lies over values.
struct ScaleView {
  QuantBlock block;
  Shape coded;  ///< leading dims, rows, columns of the values
  Shape seen;   ///< the scale's, as many dims
};

Shape leading(const Shape& matrix) { return {matrix.begin(), matrix.end() - 2}; }

Shape joined(Shape shape, std::initializer_list<int64_t> more) {
  shape.insert(shape.end(), more);
  return shape;
}

bool is_single(const Shape& shape) { return shape.empty() || elements(shape) == 1; }

/// One scale for everything, however many leading dims.
ScaleView whole_view(const Shape& matrix) {
  return {{kEntireDim, kEntireDim}, folded(matrix), {1, 1}};
}

/// What the scale's shape says by itself: one for all, one for each matrix, one for each row.
std::optional<ScaleView> view_by_shape(const Shape& matrix, const Shape& scale, bool fbgemm) {
  if (is_single(scale)) return whole_view(matrix);
  const Shape lead = leading(matrix);
  const int64_t rows = matrix[matrix.size() - 2];
  const int64_t cols = matrix.back();
  const bool per_row = scale == joined(lead, {rows, 1}) || scale == joined(lead, {rows});
  if (per_row) return ScaleView{{1, kEntireDim}, matrix, joined(lead, {rows, 1})};
  const bool per_matrix = !lead.empty() && (scale == lead || scale == joined(lead, {1}) ||
                                            scale == joined(lead, {1, 1}));
  if (per_matrix) return ScaleView{{kEntireDim, kEntireDim}, matrix, joined(lead, {1, 1})};
  // FBGEMM's experts are stored transposed, and so are their rows.
  const bool per_col = fbgemm && !lead.empty() && scale == joined(lead, {1, cols});
  if (per_col) return ScaleView{{kEntireDim, 1}, matrix, scale};
  return std::nullopt;
}

/// The shapes that a scale of declared blocks may be stored in, the plain one first.
std::vector<Shape> declared_shapes(const Shape& matrix, const QuantBlock& block) {
  const Shape grid = grid_of(matrix, block);
  std::vector<Shape> shapes = {grid};
  const Shape lead = leading(matrix);
  if (block.cols == kEntireDim) shapes.push_back(joined(lead, {grid[grid.size() - 2]}));
  if (block.cols == kEntireDim && block.rows == kEntireDim) shapes.push_back(lead);
  return shapes;
}

std::optional<ScaleView> declared_view(QuantisedSearch& search, size_t codes, size_t scale,
                                       const QuantBlock& block) {
  const Shape matrix = as_matrix(search.shape(codes));
  const bool is_whole = block.rows == kEntireDim && block.cols == kEntireDim;
  if (is_whole && is_single(search.shape(scale))) return whole_view(matrix);
  const auto because = in_blocks(search.name(codes), search.shape(codes), block);
  if (!search.expect_shape(scale, declared_shapes(matrix, block), because)) return std::nullopt;
  return ScaleView{block, matrix, grid_of(matrix, block)};
}

std::optional<ScaleView> undeclared_view(QuantisedSearch& search, size_t codes, size_t scale) {
  const bool fbgemm = search.config().name == "fbgemm_fp8";
  const Shape& shape = search.shape(scale);
  auto view = view_by_shape(as_matrix(search.shape(codes)), shape, fbgemm);
  if (view) return view;
  const auto first =
      fmt::format("{} is {} beside {} {}", quote(search.name(scale)), to_string(shape),
                  quote(search.name(codes)), to_string(search.shape(codes)));
  if (shape.size() < 2) {
    search.refuse("scale_grid", search.name(scale),
                  first + ": neither one scale nor one for each row");
  } else {
    search.refuse("unknown_scheme", search.name(codes),
                  first +
                      ", but config.json does not declare weight_block_size; add it to "
                      "quantization_config");
  }
  return std::nullopt;
}

/// Scales may be FP8 themselves (NVFP4's): by its name, one whose codes are not there. Refused.
bool is_lone_scale(QuantisedSearch& search, size_t leaf) {
  const std::string& name = search.name(leaf);
  for (const CompanionMatch& match : companion_matches(name)) {
    if (!match.name.is_plain) continue;
    search.know(name);
    search.refuse(
        "scale_alone", name,
        fmt::format("{} is named like a companion of {}, which {}", quote(name), quote(match.owner),
                    search.find(match.owner) ? "has no codes" : "is not there"));
    return true;
  }
  return false;
}

}  // namespace

std::optional<size_t> take_scale(QuantisedSearch& search, size_t codes) {
  const std::string& owner = search.name(codes);
  const auto names = scale_names_of(owner);
  std::optional<size_t> scale;
  for (const std::string& name : names) {
    const auto found = search.find(name);
    if (!found || *found == codes || search.is_taken(*found)) continue;
    search.take(*found);
    if (scale) {
      search.refuse(
          "unknown_companion", search.name(*found),
          fmt::format("{} and {} both stand for the scale of {}", quote(search.name(*scale)),
                      quote(search.name(*found)), quote(owner)));
      return std::nullopt;
    }
    scale = found;
  }
  if (!scale) {
    search.refuse("scale_missing", owner,
                  fmt::format("{} is {}, but has no scale: none of {} is there", quote(owner),
                              to_string(search.dtype(codes)), fmt::join(names, ", ")));
  }
  return scale;
}

void make_fp8(QuantisedSearch& search, size_t codes, const std::optional<QuantBlock>& block) {
  using enum DType;
  const std::string& name = search.name(codes);
  search.take(codes);
  search.know(name);
  const auto scale = take_scale(search, codes);
  if (!scale || !search.expect_dtype(*scale, {F32, BF16, F16, F8_E8M0, U8}, name)) return;
  const auto view =
      block ? declared_view(search, codes, *scale, *block) : undeclared_view(search, codes, *scale);
  if (!view) return;
  QuantisedTensor tensor;
  tensor.name = name;
  tensor.codec.format = BlockFormat::fp8;
  tensor.codec.code_dtype = search.dtype(codes);
  tensor.codec.scale_dtype = scale_dtype_of(search.dtype(*scale));
  tensor.codec.block_rows = view->block.rows;
  tensor.codec.block_cols = view->block.cols;
  tensor.coded_shape = view->coded;
  tensor.layout = reshape(identity(0, view->coded), search.shape(codes));
  tensor.operands = {operand_of(codes, view->coded), operand_of(*scale, view->seen)};
  search.add(std::move(tensor));
}

void find_fp8(QuantisedSearch& search) {
  for (size_t leaf = 0; leaf < search.size(); ++leaf) {
    const DType dtype = search.dtype(leaf);
    const bool is_fp8 = dtype == DType::F8_E4M3 || dtype == DType::F8_E5M2;
    if (!is_fp8 || search.is_taken(leaf) || is_lone_scale(search, leaf)) continue;
    make_fp8(search, leaf, search.config().block);
  }
}

}  // namespace weightloom
