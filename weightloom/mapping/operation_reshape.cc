// Unflatten and Flatten: one dim as several, and several as one. No element moves.
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "weightloom/base/checked.h"
#include "weightloom/layout/operations.h"
#include "weightloom/mapping/operation_internal.h"

namespace weightloom {
namespace {

using Slots = std::vector<Slot>;

constexpr int64_t kRest = -1;  // of sizes: what the others leave

std::string json_of(std::string_view operation, int dim, const std::vector<ConfigNumber>& sizes) {
  return fmt::format(R"({{"op": "{}", "dim": {}, "sizes": {}}})", operation, dim,
                     internal::to_json_list(sizes));
}

/// The sizes with what is left for -1, if they make `size`.
/// Errors: refuses if they do not.
std::vector<int64_t> resolved(std::string_view operation, std::vector<int64_t> sizes,
                              int64_t size) {
  int64_t product = 1;
  bool has_rest = false;
  for (const int64_t part : sizes) {
    has_rest = has_rest || part == kRest;
    const auto times = checked_mul(product, part == kRest ? 1 : part);
    product = times.value_or(-1);
    if (product <= 0) break;
  }
  if (product <= 0 || (has_rest ? size % product : size - product) != 0) {
    refuse_operation("shape_mismatch", fmt::format("{}: {} elements are not [{}]", operation, size,
                                                   fmt::join(sizes, ", ")));
  }
  for (int64_t& part : sizes) part = part == kRest ? size / product : part;
  return sizes;
}

class Unflatten final : public ConversionOperation {
 public:
  Unflatten(int dim, std::vector<ConfigNumber> sizes) : dim_(dim), sizes_(std::move(sizes)) {}

  std::string name() const override { return "Unflatten"; }

  Slots apply(Slots slots, const OperationContext& context) const override {
    const auto sizes = internal::values_of(name(), sizes_, *context.config);
    return internal::map_tensors(std::move(slots), [&](Layout layout, const std::string&) {
      const int64_t size = internal::size_of_dim(name(), layout, dim_);
      const auto parts = resolved(name(), sizes, size);
      Shape shape = layout.shape();
      shape.erase(shape.begin() + dim_);
      shape.insert(shape.begin() + dim_, parts.begin(), parts.end());
      return reshape(std::move(layout), std::move(shape));
    });
  }

  OperationPtr reverse() const override { return make_flatten(dim_, sizes_); }
  std::string to_json() const override { return json_of(name(), dim_, sizes_); }

 private:
  int dim_;
  std::vector<ConfigNumber> sizes_;
};

class Flatten final : public ConversionOperation {
 public:
  Flatten(int dim, std::vector<ConfigNumber> sizes) : dim_(dim), sizes_(std::move(sizes)) {}

  std::string name() const override { return "Flatten"; }

  Slots apply(Slots slots, const OperationContext& context) const override {
    const auto sizes = internal::values_of(name(), sizes_, *context.config);
    return internal::map_tensors(std::move(slots), [&](Layout layout, const std::string&) {
      Shape shape = layout.shape();
      const int64_t size = size_of_dims(shape);
      const auto first = shape.begin() + dim_;
      const auto last = first + static_cast<std::ptrdiff_t>(sizes_.size());
      const std::vector<int64_t> found(first, last);
      if (resolved(name(), sizes, size) != found) {
        refuse_operation("shape_mismatch",
                         fmt::format("Flatten: dims {} on of {} are not [{}]", dim_,
                                     to_string(shape), fmt::join(sizes, ", ")));
      }
      shape.erase(first, last);
      shape.insert(shape.begin() + dim_, size);
      return reshape(std::move(layout), std::move(shape));
    });
  }

  OperationPtr reverse() const override { return make_unflatten(dim_, sizes_); }
  std::string to_json() const override { return json_of(name(), dim_, sizes_); }

 private:
  int64_t size_of_dims(const Shape& shape) const {
    const auto end = static_cast<size_t>(dim_) + sizes_.size();
    if (end > shape.size()) {
      refuse_operation("shape_mismatch",
                       fmt::format("Flatten: there are no dims {} to {} in a tensor of shape {}",
                                   dim_, end - 1, to_string(shape)));
    }
    int64_t size = 1;
    for (size_t i = static_cast<size_t>(dim_); i < end; ++i) size *= shape[i];
    return size;
  }

  int dim_;
  std::vector<ConfigNumber> sizes_;
};

void require_sizes(std::string_view operation, const std::vector<ConfigNumber>& sizes) {
  int rests = 0;
  for (const ConfigNumber& size : sizes) {
    const int64_t number = size.is_literal() ? size.value(ModelConfig()).value_or(0) : 1;
    rests += number == kRest ? 1 : 0;
    if (number > 0 || number == kRest) continue;
    throw Error(ErrorCode::mapping, fmt::format("{}: sizes {} make no sense", operation,
                                                internal::to_json_list(sizes)));
  }
  if (sizes.empty() || rests > 1) {
    throw Error(ErrorCode::mapping,
                fmt::format("{}: sizes needs at least one number, and at most one -1", operation));
  }
}

}  // namespace

OperationPtr make_unflatten(int dim, std::vector<ConfigNumber> sizes) {
  internal::require_dim("Unflatten", dim);
  require_sizes("Unflatten", sizes);
  return std::make_shared<Unflatten>(dim, std::move(sizes));
}

OperationPtr make_flatten(int dim, std::vector<ConfigNumber> sizes) {
  internal::require_dim("Flatten", dim);
  require_sizes("Flatten", sizes);
  return std::make_shared<Flatten>(dim, std::move(sizes));
}

}  // namespace weightloom
