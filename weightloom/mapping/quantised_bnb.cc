// bitsandbytes: 4-bit indexes into a table with a scale for each block of the flattened tensor,
// those scales themselves quantised or not; and I8 with a scale for each row.
// Source: bitsandbytes, functional.QuantState.from_dict, dequantize_4bit, int8_vectorwise_dequant.
#include <cmath>
#include <utility>

#include <fmt/format.h>

#include "weightloom/base/checked.h"
#include "weightloom/base/quote.h"
#include "weightloom/layout/operations.h"
#include "weightloom/mapping/quantised_search_internal.h"

namespace weightloom {
namespace {

constexpr std::string_view kState = ".quant_state.bitsandbytes__";
constexpr std::string_view kScales = ".SCB";
/// 1/127 as bitsandbytes writes it.
constexpr float kInt8Factor = 7.874015718698502e-3F;
constexpr int64_t kTable4 = 16;
constexpr int64_t kTable8 = 256;
/// A state is a few hundred bytes of JSON; what is larger is not read.
constexpr int64_t kMostStateBytes = 65536;

/// What the JSON beside a tensor says.
struct QuantState {
  Shape shape;
  int64_t block = 0;
  int64_t nested_block = 0;
  float nested_offset = 0;
};

/// One tensor of 4-bit indexes.
class TableTensor {
 public:
  TableTensor(QuantisedSearch& search, std::string name, size_t state)
      : search_(search), name_(std::move(name)), state_leaf_(state) {}

  void make() {
    search_.take(state_leaf_);
    if (search_.is_known(name_)) {
      return search_.refuse("unknown_companion", search_.name(state_leaf_),
                            fmt::format("{} is a second state of {}",
                                        quote(search_.name(state_leaf_)), quote(name_)));
    }
    search_.know(name_);
    const auto codes = search_.take_needed(name_, name_);
    const auto scales = search_.take_needed(name_ + ".absmax", name_);
    const auto table = search_.take_needed(name_ + ".quant_map", name_);
    nested_scale_ = search_.take_if_there(name_ + ".nested_absmax");
    nested_table_ = search_.take_if_there(name_ + ".nested_quant_map");
    if (!codes || !scales || !table || !read_state()) return;
    if (!check_codes(*codes) || !check_table(*table, kTable4)) return;
    const int64_t values = elements(state_.shape);
    const auto scale = scales_of(*scales, ceil_div(values, state_.block));
    if (!scale) return;
    QuantisedTensor tensor;
    tensor.name = name_;
    tensor.codec.format = BlockFormat::table4;
    tensor.codec.code_dtype = DType::U8;
    tensor.codec.block_cols = state_.block;
    tensor.coded_shape = {1, values};
    tensor.layout = reshape(identity(0, {1, values}), state_.shape);
    tensor.operands = {operand_of(*codes, {1, ceil_div(values, 2)}), *scale,
                       operand_of(*table, {1, kTable4})};
    search_.add(std::move(tensor));
  }

 private:
  void refuse(const std::string& why) {
    search_.refuse(
        "unknown_scheme", name_,
        fmt::format("{}: its state {} {}", quote(name_), quote(search_.name(state_leaf_)), why));
  }

  bool read_state() {
    if (!search_.expect_dtype(state_leaf_, {DType::U8}, name_)) return false;
    if (elements(search_.shape(state_leaf_)) > kMostStateBytes) {
      refuse(fmt::format("is {}, larger than any state", to_string(search_.shape(state_leaf_))));
      return false;
    }
    try {
      const auto json = ModelConfig::parse(search_.text_of(state_leaf_), name_);
      return read_json(json);
    } catch (const Error& error) {
      if (error.code() != ErrorCode::format) throw;
      refuse(fmt::format("is not JSON: {}", error.what()));
      return false;
    }
  }

  bool read_json(const ModelConfig& json) {
    const auto shape = json.integers_at("shape");
    state_.shape = shape.value_or(Shape{});
    state_.block = json.at("blocksize").value_or(0);
    state_.nested_block = json.at("nested_blocksize").value_or(0);
    state_.nested_offset = static_cast<float>(json.number_at("nested_offset").value_or(NAN));
    if (shape && checked_elements(*shape) && state_.block > 0) return true;
    refuse("does not say a shape and a positive blocksize");
    return false;
  }

  bool check_codes(size_t leaf) {
    const int64_t bytes = ceil_div(elements(state_.shape), 2);
    const auto because =
        fmt::format("{} of {} values, two in a byte,", quote(name_), to_string(state_.shape));
    return search_.expect_dtype(leaf, {DType::U8}, name_) &&
           search_.expect_shape(leaf, {{bytes, 1}, {1, bytes}, {bytes}}, because);
  }

  bool check_table(size_t leaf, int64_t size) {
    return search_.expect_dtype(leaf, {DType::F32}, name_) &&
           search_.expect_shape(leaf, {{size}}, "a table of values");
  }

  /// The scales of blocks: a leaf, or made of indexes into a table of 256.
  std::optional<QuantisedOperand> scales_of(size_t leaf, int64_t blocks) {
    const auto because =
        fmt::format("{} {} in blocks of {}", quote(name_), to_string(state_.shape), state_.block);
    if (!search_.expect_dtype(leaf, {DType::F32, DType::U8}, name_)) return std::nullopt;
    if (!search_.expect_shape(leaf, {{blocks}}, because)) return std::nullopt;
    if (search_.dtype(leaf) == DType::F32) return operand_of(leaf, {1, blocks});
    return nested_scales(leaf, blocks);
  }

  std::optional<QuantisedOperand> nested_scales(size_t leaf, int64_t blocks) {
    const auto scale = search_.take_needed(name_ + ".nested_absmax", name_);
    const auto table = search_.take_needed(name_ + ".nested_quant_map", name_);
    if (!scale || !table || !check_table(*table, kTable8)) return std::nullopt;
    if (state_.nested_block <= 0 || !std::isfinite(state_.nested_offset)) {
      refuse("does not say a positive nested_blocksize and a nested_offset");
      return std::nullopt;
    }
    const int64_t groups = ceil_div(blocks, state_.nested_block);
    const auto because = fmt::format("{} [{}] in blocks of {}", quote(search_.name(leaf)), blocks,
                                     state_.nested_block);
    if (!search_.expect_dtype(*scale, {DType::F32}, name_)) return std::nullopt;
    if (!search_.expect_shape(*scale, {{groups}}, because)) return std::nullopt;
    QuantisedTensor tensor;
    tensor.codec.format = BlockFormat::table8;
    tensor.codec.code_dtype = DType::U8;
    tensor.codec.block_cols = state_.nested_block;
    tensor.codec.offset = state_.nested_offset;
    tensor.coded_shape = {1, blocks};
    tensor.layout = identity(0, tensor.coded_shape);
    tensor.operands = {operand_of(leaf, {1, blocks}), operand_of(*scale, {1, groups}),
                       operand_of(*table, {1, kTable8})};
    return QuantisedOperand{search_.add(std::move(tensor)), true, {1, blocks}};
  }

  QuantisedSearch& search_;
  std::string name_;
  size_t state_leaf_;
  std::optional<size_t> nested_scale_;
  std::optional<size_t> nested_table_;
  QuantState state_;
};

/// "row" is written as 0; the others are orders of tiles on a GPU.
bool is_row_order(QuantisedSearch& search, const std::string& module) {
  const auto format = search.take_if_there(module + ".weight_format");
  if (!format) return true;
  const bool is_byte = search.dtype(*format) == DType::U8 && elements(search.shape(*format)) == 1;
  if (is_byte && search.text_of(*format) == std::string(1, '\0')) return true;
  search.refuse("unknown_scheme", search.name(*format),
                fmt::format("{} says another order than rows, which is not known",
                            quote(search.name(*format))));
  return false;
}

void make_int8(QuantisedSearch& search, size_t scale, const std::string& module) {
  const std::string name = module + ".weight";
  search.take(scale);
  search.know(name);
  const auto codes = search.find(name);
  if (!codes || search.dtype(*codes) != DType::I8) {
    return search.refuse("scale_alone", search.name(scale),
                         fmt::format("{} belongs to {}, which is {}", quote(search.name(scale)),
                                     quote(name), codes ? "not I8" : "not there"));
  }
  search.take(*codes);
  const Shape& shape = search.shape(*codes);
  if (shape.size() != 2) {
    return search.refuse("scale_grid", name,
                         fmt::format("{} is {}, but has a scale for each of its rows", quote(name),
                                     to_string(shape)));
  }
  const auto because = in_blocks(name, shape, {1, kEntireDim});
  const bool is_known = is_row_order(search, module) &&
                        search.expect_dtype(scale, {DType::F32}, name) &&
                        search.expect_shape(scale, {{shape[0]}, {shape[0], 1}}, because);
  if (!is_known) return;
  QuantisedTensor tensor;
  tensor.name = name;
  tensor.codec.format = BlockFormat::int8;
  tensor.codec.code_dtype = DType::I8;
  tensor.codec.block_cols = kEntireDim;
  tensor.codec.factor = kInt8Factor;
  tensor.coded_shape = shape;
  tensor.layout = identity(0, shape);
  tensor.operands = {operand_of(*codes, shape), operand_of(scale, {shape[0], 1})};
  search.add(std::move(tensor));
}

/// I8 weights that no scale led to.
void refuse_bare_codes(QuantisedSearch& search) {
  for (size_t leaf = 0; leaf < search.size(); ++leaf) {
    const std::string& name = search.name(leaf);
    const bool is_bare = search.dtype(leaf) == DType::I8 && name.ends_with(".weight");
    if (!is_bare || search.is_taken(leaf)) continue;
    search.know(name);
    search.refuse("scale_missing", name,
                  fmt::format("{} is I8, but has no 'SCB' beside it", quote(name)));
  }
}

}  // namespace

void find_bnb(QuantisedSearch& search) {
  for (size_t leaf = 0; leaf < search.size(); ++leaf) {
    const std::string& name = search.name(leaf);
    const size_t state = name.find(kState);
    if (state != name.npos) TableTensor(search, name.substr(0, state), leaf).make();
    if (name.ends_with(kScales)) {
      make_int8(search, leaf, name.substr(0, name.size() - kScales.size()));
    }
  }
  refuse_bare_codes(search);
}

}  // namespace weightloom
