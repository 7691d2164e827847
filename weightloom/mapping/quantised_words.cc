// GPTQ and AWQ: weights [in, out] packed in I32, the transpose of a Linear's.
// Source: AutoGPTQ and GPTQModel (qlinear), AutoAWQ (WQLinear_GEMM).
#include <utility>

#include <fmt/format.h>

#include "weightloom/base/checked.h"
#include "weightloom/base/quote.h"
#include "weightloom/layout/operations.h"
#include "weightloom/mapping/quantised_search_internal.h"

namespace weightloom {
namespace {

constexpr std::string_view kCodes = ".qweight";

/// One module.
class WordTensor {
 public:
  WordTensor(QuantisedSearch& search, std::string module, size_t codes)
      : search_(search),
        config_(search.config()),
        module_(std::move(module)),
        name_(module_ + ".weight"),
        codes_(codes),
        fields_(32 / config_.bits) {}

  void make() {
    search_.take(codes_);
    search_.know(name_);
    const auto scales = search_.take_needed(module_ + ".scales", name_);
    const auto zeros = search_.take_needed(module_ + ".qzeros", name_);
    const auto order = config_.act_order ? search_.take_needed(module_ + ".g_idx", name_)
                                         : search_.take_if_there(module_ + ".g_idx");
    if (!scales || !zeros || (config_.act_order && !order)) return;
    if (!read_codes() || !add_scales(*scales) || !add_zeros(*zeros)) return;
    if (order && !add_order(*order)) return;
    tensor_.name = name_;
    tensor_.coded_shape = values_;
    tensor_.layout = transpose(identity(0, values_), 0, 1);
    search_.add(std::move(tensor_));
  }

 private:
  bool is_gptq() const { return config_.method == QuantMethod::gptq; }

  bool read_codes() {
    const Shape& shape = search_.shape(codes_);
    if (!search_.expect_dtype(codes_, {DType::I32}, name_)) return false;
    const size_t packed = is_gptq() ? 0 : 1;
    const auto size = shape.size() == 2 ? checked_mul(shape[packed], fields_) : std::nullopt;
    if (!size) {
      search_.refuse("scale_grid", search_.name(codes_),
                     fmt::format("{} is {}, but packed weights have two dims",
                                 quote(search_.name(codes_)), to_string(shape)));
      return false;
    }
    values_ = shape;
    values_[packed] = *size;
    tensor_.codec.format = is_gptq() ? BlockFormat::gptq : BlockFormat::awq;
    tensor_.codec.code_dtype = DType::I32;
    tensor_.codec.bits = static_cast<int>(config_.bits);
    tensor_.operands.push_back(operand_of(codes_, shape));
    return true;
  }

  int64_t group_rows() const { return config_.group_size == -1 ? kEntireDim : config_.group_size; }

  std::string because() const { return in_blocks(name_, values_, {group_rows(), 1}); }

  bool add_scales(size_t leaf) {
    using enum DType;
    grid_ = grid_of(values_, {group_rows(), 1});
    if (!search_.expect_dtype(leaf, {F16, BF16, F32}, name_)) return false;
    if (!search_.expect_shape(leaf, {grid_}, because())) return false;
    tensor_.codec.scale_dtype = search_.dtype(leaf);
    tensor_.codec.block_rows = group_rows();
    tensor_.codec.block_cols = 1;
    tensor_.operands.push_back(operand_of(leaf, grid_));
    return true;
  }

  bool add_zeros(size_t leaf) {
    const Shape needed = {grid_[0], ceil_div(grid_[1], fields_)};
    if (!search_.expect_dtype(leaf, {DType::I32}, name_)) return false;
    if (!search_.expect_shape(leaf, {needed}, because())) return false;
    tensor_.codec.zero_points = true;
    tensor_.codec.zero_bias = config_.zero_bias;
    tensor_.operands.push_back(operand_of(leaf, needed));
    return true;
  }

  /// The list of groups is left out where it says what the order of rows says.
  bool add_order(size_t leaf) {
    const auto one_a_row =
        fmt::format("one for each row of {} {}", quote(name_), to_string(values_));
    if (!search_.expect_dtype(leaf, {DType::I32}, name_)) return false;
    if (!search_.expect_shape(leaf, {{values_[0]}}, one_a_row)) return false;
    if (!config_.act_order && is_in_order(leaf)) return true;
    tensor_.codec.group_index = true;
    tensor_.codec.groups = grid_[0];
    tensor_.operands.push_back(operand_of(leaf, {values_[0], 1}));
    return true;
  }

  bool is_in_order(size_t leaf) const {
    const int64_t rows = group_rows() == kEntireDim ? values_[0] : group_rows();
    const auto groups = search_.integers_of(leaf);
    for (size_t i = 0; i < groups.size(); ++i) {
      if (groups[i] != static_cast<int64_t>(i) / rows) return false;
    }
    return static_cast<int64_t>(groups.size()) == values_[0];
  }

  QuantisedSearch& search_;
  const QuantConfig& config_;
  std::string module_;
  std::string name_;
  size_t codes_;
  int64_t fields_;
  Shape values_;  // [in, out]
  Shape grid_;
  QuantisedTensor tensor_;
};

}  // namespace

void find_word_packed(QuantisedSearch& search) {
  for (size_t leaf = 0; leaf < search.size(); ++leaf) {
    const std::string& name = search.name(leaf);
    if (!name.ends_with(kCodes) || search.is_taken(leaf)) continue;
    WordTensor(search, name.substr(0, name.size() - kCodes.size()), leaf).make();
  }
}

}  // namespace weightloom
