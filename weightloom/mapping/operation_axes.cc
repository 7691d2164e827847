// Transpose, Interleave and PermuteForRope: one tensor, reordered.
#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "weightloom/layout/operations.h"
#include "weightloom/mapping/operation_internal.h"

namespace weightloom {
namespace {

using Slots = std::vector<Slot>;

BlockShape swapped(BlockShape block, int dim0, int dim1) {
  std::swap(block[static_cast<size_t>(dim0)], block[static_cast<size_t>(dim1)]);
  return block;
}

class Transpose final : public ConversionOperation {
 public:
  Transpose(int dim0, int dim1) : dim0_(dim0), dim1_(dim1) {}

  std::string name() const override { return "Transpose"; }

  Slots apply(Slots slots, const OperationContext&) const override {
    return internal::map_tensors(std::move(slots), [&](const Layout& layout, const std::string&) {
      internal::size_of_dim("Transpose", layout, std::max(dim0_, dim1_));
      return transpose(layout, dim0_, dim1_);
    });
  }

  OnBlocks on_blocks(const Slots&, const BlockShape& block,
                     const OperationContext&) const override {
    return {make_transpose(dim0_, dim1_), swapped(block, dim0_, dim1_)};
  }

  OperationPtr reverse() const override { return make_transpose(dim0_, dim1_); }
  std::string to_json() const override {
    return fmt::format(R"({{"op": "Transpose", "dim0": {}, "dim1": {}}})", dim0_, dim1_);
  }

 private:
  int dim0_;
  int dim1_;
};

class CheckedTranspose final : public ConversionOperation {
 public:
  CheckedTranspose(int dim0, int dim1, std::vector<ConfigNumber> wanted, bool backwards)
      : dim0_(dim0), dim1_(dim1), wanted_(std::move(wanted)), backwards_(backwards) {}

  std::string name() const override { return "Transpose"; }

  Slots apply(Slots slots, const OperationContext& context) const override {
    const Shape wanted = internal::values_of(name(), wanted_, *context.config);
    return internal::map_tensors(std::move(slots), [&](Layout layout, const std::string&) {
      if (backwards_) return as_wanted(std::move(layout), wanted);
      if (!must_transpose(layout.shape(), wanted)) return layout;
      return transpose(layout, dim0_, dim1_);
    });
  }

  OnBlocks on_blocks(const Slots& slots, const BlockShape& block,
                     const OperationContext& context) const override {
    const Shape wanted = internal::values_of(name(), wanted_, *context.config);
    if (backwards_ || !must_transpose(internal::only_tensor(name(), slots).shape(), wanted)) {
      return {internal::make_identity(), block};
    }
    return {make_transpose(dim0_, dim1_), swapped(block, dim0_, dim1_)};
  }

  OperationPtr reverse() const override {
    return make_checked_transpose(dim0_, dim1_, wanted_, !backwards_);
  }
  std::string to_json() const override {
    return fmt::format(R"({{"op": "Transpose", "dim0": {}, "dim1": {}, "check_dims": {}{}}})",
                       dim0_, dim1_, internal::to_json_list(wanted_),
                       backwards_ ? R"(, "backwards": true)" : "");
  }

 private:
  /// Backwards nothing tells which way the original was stored, and forwards both ways are read: it
  /// stays as the model has it.
  Layout as_wanted(Layout layout, const Shape& wanted) const {
    if (!must_transpose(layout.shape(), wanted)) return layout;
    refuse_operation("shape_mismatch",
                     fmt::format("Transpose: {} is not {}, which config.json declares",
                                 to_string(layout.shape()), to_string(wanted)));
  }

  bool must_transpose(const Shape& found, const Shape& wanted) const {
    const auto dim0 = static_cast<size_t>(dim0_);
    const auto dim1 = static_cast<size_t>(dim1_);
    if (wanted[dim0] == wanted[dim1]) {
      refuse_operation("operation_refused",
                       fmt::format("Transpose: dims {} and {} of {} are equal, so the shape does "
                                   "not tell whether the checkpoint is transposed: say it with a "
                                   "mapping of your own",
                                   dim0_, dim1_, to_string(wanted)));
    }
    Shape other = wanted;
    std::swap(other[dim0], other[dim1]);
    if (found == wanted) return false;
    if (found == other) return true;
    refuse_operation(
        "shape_mismatch",
        fmt::format("Transpose: {} is neither {}, which config.json declares, nor that "
                    "transposed",
                    to_string(found), to_string(wanted)));
  }

  int dim0_;
  int dim1_;
  std::vector<ConfigNumber> wanted_;
  bool backwards_;
};

/// What reorders dim `dim` reorders blocks of 1, leaves one whole block as it is, and mixes others.
OperationPtr reordered(const ConversionOperation& operation, OperationPtr same, int dim,
                       const BlockShape& block) {
  const int64_t size = block[static_cast<size_t>(dim)];
  if (size == 1) return same;
  if (size == kWholeDim) return internal::make_identity();
  refuse_operation("companion_refused",
                   fmt::format("{}: it reorders dim {} element by element, inside blocks of {}",
                               operation.name(), dim, size));
}

class Interleave final : public ConversionOperation {
 public:
  Interleave(int dim, bool inverse) : dim_(dim), inverse_(inverse) {}

  std::string name() const override { return "Interleave"; }

  Slots apply(Slots slots, const OperationContext&) const override {
    return internal::map_tensors(std::move(slots), [&](const Layout& layout, const std::string&) {
      if (internal::size_of_dim("Interleave", layout, dim_) % 2 != 0) {
        refuse_operation("shape_mismatch", fmt::format("Interleave: dim {} of {} is odd", dim_,
                                                       to_string(layout.shape())));
      }
      return interleave(layout, dim_, 2, inverse_);
    });
  }

  OnBlocks on_blocks(const Slots&, const BlockShape& block,
                     const OperationContext&) const override {
    return {reordered(*this, make_interleave(dim_, inverse_), dim_, block), block};
  }

  OperationPtr reverse() const override { return make_interleave(dim_, !inverse_); }
  std::string to_json() const override {
    return fmt::format(R"({{"op": "Interleave", "dim": {}{}}})", dim_,
                       inverse_ ? R"(, "inverse": true)" : "");
  }

 private:
  int dim_;
  bool inverse_;
};

class PermuteForRope final : public ConversionOperation {
 public:
  explicit PermuteForRope(RopeParameters parameters) : parameters_(std::move(parameters)) {}

  std::string name() const override { return "PermuteForRope"; }

  Slots apply(Slots slots, const OperationContext& context) const override {
    return internal::map_tensors(std::move(slots), [&](Layout layout, const std::string& pattern) {
      const ConfigNumber* number = heads_of(pattern);
      return number == nullptr ? layout
                               : permuted(std::move(layout), heads(*number, *context.config));
    });
  }

  OnBlocks on_blocks(const Slots&, const BlockShape& block,
                     const OperationContext&) const override {
    return {reordered(*this, make_permute_for_rope(parameters_), 0, block), block};
  }

  OperationPtr reverse() const override {
    RopeParameters reversed = parameters_;
    reversed.inverse = !reversed.inverse;
    return make_permute_for_rope(std::move(reversed));
  }

  std::string to_json() const override {
    const auto& p = parameters_;
    std::string text = fmt::format(R"({{"op": "PermuteForRope", "num_heads": {})",
                                   p.num_heads_of.empty() ? p.num_heads.to_json() : heads_json());
    if (!p.subconfig_key.empty()) {
      text += R"(, "subconfig_key": )" + internal::to_json_string(p.subconfig_key);
    }
    if (!p.permute_layer_names.empty()) {
      text += R"(, "permute_layer_names": )" + internal::to_json_list(p.permute_layer_names);
    }
    return text + (p.inverse ? R"(, "inverse": true})" : "}");
  }

 private:
  std::string heads_json() const {
    std::string text;
    for (const auto& [name, number] : parameters_.num_heads_of) {
      text += fmt::format("{}{}: {}", text.empty() ? "" : ", ", internal::to_json_string(name),
                          number.to_json());
    }
    return "{" + text + "}";
  }

  /// Null for a tensor that stays as it is.
  const ConfigNumber* heads_of(const std::string& pattern) const {
    const auto& p = parameters_;
    for (const auto& [name, number] : p.num_heads_of) {
      if (pattern.find(name) != pattern.npos) return &number;
    }
    const auto& names = p.permute_layer_names;
    const bool named = std::any_of(names.begin(), names.end(), [&](const std::string& name) {
      return pattern.find(name) != pattern.npos;
    });
    return named || (names.empty() && p.num_heads_of.empty()) ? &p.num_heads : nullptr;
  }

  int64_t heads(const ConfigNumber& heads, const ModelConfig& config) const {
    const auto& sub = parameters_.subconfig_key;
    const auto number = heads.value(config, sub);
    if (number && *number > 0) return *number;
    refuse_operation("operation_refused",
                     fmt::format("PermuteForRope: config.json gives no number of heads under "
                                 "'{}{}{}'",
                                 sub, sub.empty() ? "" : ".", heads.text()));
  }

  Layout permuted(Layout layout, int64_t heads) const {
    const Shape shape = layout.shape();
    if (shape.empty() || shape.size() > 2) {
      refuse_operation(
          "shape_mismatch",
          fmt::format("PermuteForRope takes tensors of rank 1 or 2, not {}", to_string(shape)));
    }
    const int64_t rows = shape[0];
    if (rows % heads != 0 || rows / heads % 2 != 0) {
      refuse_operation(
          "shape_mismatch",
          fmt::format("PermuteForRope: {} rows do not divide into {} heads of an even size", rows,
                      heads));
    }
    const int64_t half = rows / heads / 2;
    Shape apart = parameters_.inverse ? Shape{heads, 2, half} : Shape{heads, half, 2};
    apart.insert(apart.end(), shape.begin() + 1, shape.end());
    return reshape(transpose(reshape(std::move(layout), apart), 1, 2), shape);
  }

  RopeParameters parameters_;
};

}  // namespace

OperationPtr make_transpose(int dim0, int dim1) {
  internal::require_dim("Transpose", dim0);
  internal::require_dim("Transpose", dim1);
  return std::make_shared<Transpose>(dim0, dim1);
}

OperationPtr make_checked_transpose(int dim0, int dim1, std::vector<ConfigNumber> wanted,
                                    bool backwards) {
  internal::require_dim("Transpose", dim0);
  internal::require_dim("Transpose", dim1);
  if (std::cmp_greater_equal(std::max(dim0, dim1), wanted.size())) {
    throw Error(ErrorCode::mapping,
                fmt::format("Transpose: check_dims has {} dims, but dims {} and {} are swapped",
                            wanted.size(), dim0, dim1));
  }
  return std::make_shared<CheckedTranspose>(dim0, dim1, std::move(wanted), backwards);
}

OperationPtr make_interleave(int dim, bool inverse) {
  internal::require_dim("Interleave", dim);
  return std::make_shared<Interleave>(dim, inverse);
}

OperationPtr make_permute_for_rope(RopeParameters parameters) {
  const ConfigNumber& heads = parameters.num_heads;
  if (heads.is_literal() && heads.value(ModelConfig()).value_or(0) <= 0) {
    throw Error(ErrorCode::mapping,
                fmt::format("PermuteForRope: num_heads {} is not positive", heads.text()));
  }
  return std::make_shared<PermuteForRope>(std::move(parameters));
}

}  // namespace weightloom
