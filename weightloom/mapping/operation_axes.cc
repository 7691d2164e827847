// Transpose, Interleave and PermuteForRope: one tensor, reordered.
#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "weightloom/layout/operations.h"
#include "weightloom/mapping/operation_internal.h"

namespace weightloom {
namespace {

using internal::refuse;
using Slots = std::vector<Slot>;

class Transpose final : public ConversionOperation {
 public:
  Transpose(int dim0, int dim1, bool check_dims)
      : dim0_(dim0), dim1_(dim1), check_dims_(check_dims) {}

  std::string name() const override { return "Transpose"; }

  Slots apply(Slots slots, const OperationContext&) const override {
    if (check_dims_) {
      // "Only if the shape differs" cannot be told of a square tensor: the rule must say it.
      throw Error(
          ErrorCode::unsupported,
          "Transpose: check_dims needs the model's own shapes, which nothing declares",
          "say whether the checkpoint is transposed: leave check_dims or the operation out");
    }
    return internal::map_tensors(std::move(slots), [&](const Layout& layout, const std::string&) {
      internal::size_of_dim("Transpose", layout, std::max(dim0_, dim1_));
      return transpose(layout, dim0_, dim1_);
    });
  }

  OperationPtr reverse() const override { return make_transpose(dim0_, dim1_, check_dims_); }
  std::string to_json() const override {
    return fmt::format(R"({{"op": "Transpose", "dim0": {}, "dim1": {}{}}})", dim0_, dim1_,
                       check_dims_ ? R"(, "check_dims": true)" : "");
  }

 private:
  int dim0_;
  int dim1_;
  bool check_dims_;
};

class Interleave final : public ConversionOperation {
 public:
  Interleave(int dim, bool inverse) : dim_(dim), inverse_(inverse) {}

  std::string name() const override { return "Interleave"; }

  Slots apply(Slots slots, const OperationContext&) const override {
    return internal::map_tensors(std::move(slots), [&](const Layout& layout, const std::string&) {
      if (internal::size_of_dim("Interleave", layout, dim_) % 2 != 0) {
        refuse("shape_mismatch",
               fmt::format("Interleave: dim {} of {} is odd", dim_, to_string(layout.shape())));
      }
      return interleave(layout, dim_, 2, inverse_);
    });
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
      if (!acts_on(pattern)) return layout;
      return permuted(std::move(layout), heads(*context.config));
    });
  }

  OperationPtr reverse() const override {
    RopeParameters reversed = parameters_;
    reversed.inverse = !reversed.inverse;
    return make_permute_for_rope(std::move(reversed));
  }

  std::string to_json() const override {
    const auto& p = parameters_;
    std::string text = R"({"op": "PermuteForRope", "num_heads": )";
    text += p.num_heads_key.empty() ? std::to_string(p.num_heads)
                                    : internal::to_json_string(p.num_heads_key);
    if (!p.subconfig_key.empty()) {
      text += R"(, "subconfig_key": )" + internal::to_json_string(p.subconfig_key);
    }
    if (!p.permute_layer_names.empty()) {
      text += R"(, "permute_layer_names": )" + internal::to_json_list(p.permute_layer_names);
    }
    return text + (p.inverse ? R"(, "inverse": true})" : "}");
  }

 private:
  bool acts_on(const std::string& pattern) const {
    const auto& names = parameters_.permute_layer_names;
    return names.empty() || std::any_of(names.begin(), names.end(), [&](const std::string& name) {
             return pattern.find(name) != pattern.npos;
           });
  }

  int64_t heads(const ModelConfig& config) const {
    const auto& key = parameters_.num_heads_key;
    if (key.empty()) return parameters_.num_heads;
    const auto number = config.integer(key, parameters_.subconfig_key);
    if (!number || *number <= 0) {
      const auto& sub = parameters_.subconfig_key;
      refuse("operation_refused",
             fmt::format("PermuteForRope: config.json gives no number of heads under '{}{}{}'", sub,
                         sub.empty() ? "" : ".", key));
    }
    return *number;
  }

  Layout permuted(Layout layout, int64_t heads) const {
    const Shape shape = layout.shape();
    if (shape.empty() || shape.size() > 2) {
      refuse("shape_mismatch",
             fmt::format("PermuteForRope takes tensors of rank 1 or 2, not {}", to_string(shape)));
    }
    const int64_t rows = shape[0];
    if (rows % heads != 0 || rows / heads % 2 != 0) {
      refuse("shape_mismatch",
             fmt::format("PermuteForRope: {} rows do not divide into {} heads of an even size",
                         rows, heads));
    }
    const int64_t half = rows / heads / 2;
    Shape apart = parameters_.inverse ? Shape{heads, 2, half} : Shape{heads, half, 2};
    apart.insert(apart.end(), shape.begin() + 1, shape.end());
    return reshape(transpose(reshape(std::move(layout), apart), 1, 2), shape);
  }

  RopeParameters parameters_;
};

}  // namespace

OperationPtr make_transpose(int dim0, int dim1, bool check_dims) {
  internal::require_dim("Transpose", dim0);
  internal::require_dim("Transpose", dim1);
  return std::make_shared<Transpose>(dim0, dim1, check_dims);
}

OperationPtr make_interleave(int dim, bool inverse) {
  internal::require_dim("Interleave", dim);
  return std::make_shared<Interleave>(dim, inverse);
}

OperationPtr make_permute_for_rope(RopeParameters parameters) {
  if (parameters.num_heads_key.empty() && parameters.num_heads <= 0) {
    throw Error(ErrorCode::mapping,
                fmt::format("PermuteForRope: num_heads {} is not positive", parameters.num_heads));
  }
  return std::make_shared<PermuteForRope>(std::move(parameters));
}

}  // namespace weightloom
