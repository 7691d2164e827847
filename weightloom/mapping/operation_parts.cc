// Chunk, Split and Concatenate: one tensor and its parts along a dim.
#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "weightloom/base/checked.h"
#include "weightloom/layout/operations.h"
#include "weightloom/mapping/operation_internal.h"

namespace weightloom {
namespace {

using Slots = std::vector<Slot>;

/// Sizes of all tensors of all slots along `dim`, in order.
std::vector<int64_t> part_sizes(std::string_view operation, const Slots& slots, int dim) {
  std::vector<int64_t> sizes;
  for (const auto& slot : slots) {
    for (const auto& item : slot.items) {
      sizes.push_back(internal::size_of_dim(operation, item, dim));
    }
  }
  return sizes;
}

/// Nothing if a size is negative, or the sum overflows.
std::optional<int64_t> sum_of(const std::vector<int64_t>& sizes) {
  std::optional<int64_t> sum = 0;
  for (const int64_t size : sizes) sum = sum && size >= 0 ? checked_add(*sum, size) : std::nullopt;
  return sum;
}

std::string shards_json(const std::optional<ConfigNumber>& num_shards) {
  return num_shards ? fmt::format(R"(, "num_shards_attribute": {})", num_shards->to_json()) : "";
}

class Chunk final : public ConversionOperation {
 public:
  Chunk(int dim, std::optional<ConfigNumber> num_shards)
      : dim_(dim), num_shards_(std::move(num_shards)) {}

  std::string name() const override { return "Chunk"; }

  Slots apply(Slots slots, const OperationContext& context) const override {
    const Layout whole = internal::only_tensor(name(), std::move(slots));
    const std::vector<int64_t> sizes = sizes_of(whole, context);
    std::vector<Layout> parts = split(whole, dim_, sizes);
    if (!num_shards_) return internal::slots_of_parts(std::move(parts), context);
    return {{std::move(parts), true, context.target_patterns.front()}};
  }

  OnBlocks on_blocks(const Slots& slots, const BlockShape& block,
                     const OperationContext& context) const override {
    const Layout whole = internal::only_tensor(name(), slots);
    internal::require_whole_blocks(name(), sizes_of(whole, context), dim_, block);
    return {make_chunk(dim_, num_shards_), block};
  }

  OperationPtr reverse() const override { return make_concatenate(dim_, {}, num_shards_); }
  std::string to_json() const override {
    return fmt::format(R"({{"op": "Chunk", "dim": {}{}}})", dim_, shards_json(num_shards_));
  }

 private:
  int64_t parts(const OperationContext& context) const {
    if (!num_shards_) return context.targets;
    const int64_t number = internal::values_of(name(), {*num_shards_}, *context.config).front();
    if (number > 0 && context.targets == 1) return number;
    refuse_operation("operation_refused",
                     fmt::format("Chunk: {} = {} parts do not go to {} target patterns",
                                 num_shards_->text(), number, context.targets));
  }

  std::vector<int64_t> sizes_of(const Layout& whole, const OperationContext& context) const {
    const int64_t size = internal::size_of_dim(name(), whole, dim_);
    const int64_t number = parts(context);
    if (size % number != 0 || number > std::max<int64_t>(size, context.targets)) {
      refuse_operation("shape_mismatch",
                       fmt::format("Chunk: dim {} of {} does not divide into {} equal parts", dim_,
                                   to_string(whole.shape()), number));
    }
    return std::vector<int64_t>(static_cast<size_t>(number), size / number);
  }

  int dim_;
  std::optional<ConfigNumber> num_shards_;
};

class Split final : public ConversionOperation {
 public:
  Split(int dim, std::vector<ConfigNumber> sizes) : dim_(dim), sizes_(std::move(sizes)) {}

  std::string name() const override { return "Split"; }

  Slots apply(Slots slots, const OperationContext& context) const override {
    const Layout whole = internal::only_tensor(name(), std::move(slots));
    const auto sizes = internal::values_of(name(), sizes_, *context.config);
    const int64_t size = internal::size_of_dim(name(), whole, dim_);
    const std::optional<int64_t> total = sum_of(sizes);
    if (total != size) {
      refuse_operation("shape_mismatch",
                       fmt::format("Split: sizes {} add up to {}, but dim {} of {} has {}",
                                   internal::to_json_list(sizes),
                                   total ? std::to_string(*total) : std::string("no size"), dim_,
                                   to_string(whole.shape()), size));
    }
    return internal::slots_of_parts(split(whole, dim_, sizes), context);
  }

  OnBlocks on_blocks(const Slots&, const BlockShape& block,
                     const OperationContext& context) const override {
    const auto sizes = internal::values_of(name(), sizes_, *context.config);
    internal::require_whole_blocks(name(), sizes, dim_, block);
    const int64_t size = block[static_cast<size_t>(dim_)];
    std::vector<ConfigNumber> blocks;
    for (const int64_t part : sizes) {
      blocks.emplace_back(size == kWholeDim ? 1 : ceil_div(part, size));
    }
    return {make_split(dim_, std::move(blocks)), block};
  }

  OperationPtr reverse() const override { return make_concatenate(dim_, sizes_); }
  std::string to_json() const override {
    return fmt::format(R"({{"op": "Split", "dim": {}, "sizes": {}}})", dim_,
                       internal::to_json_list(sizes_));
  }

 private:
  int dim_;
  std::vector<ConfigNumber> sizes_;
};

class Concatenate final : public ConversionOperation {
 public:
  Concatenate(int dim, std::vector<ConfigNumber> sizes, std::optional<ConfigNumber> num_shards)
      : dim_(dim), sizes_(std::move(sizes)), num_shards_(std::move(num_shards)) {}

  std::string name() const override { return "Concatenate"; }

  Slots apply(Slots slots, const OperationContext& context) const override {
    const std::vector<int64_t> found = part_sizes(name(), slots, dim_);
    std::vector<Layout> parts;
    for (auto& slot : slots) {
      for (auto& item : slot.items) parts.push_back(std::move(item));
    }
    if (parts.empty()) {
      refuse_operation("operation_refused", "Concatenate: there is nothing to concatenate");
    }
    internal::require_equal_shapes(name(), parts, dim_);
    require_sizes(found, context);
    std::vector<Layout> whole;
    whole.push_back(concat(parts, dim_));
    return internal::slots_of_parts(std::move(whole), context);
  }

  OnBlocks on_blocks(const Slots& slots, const BlockShape& block,
                     const OperationContext&) const override {
    internal::require_whole_blocks(name(), part_sizes(name(), slots, dim_), dim_, block);
    return {make_concatenate(dim_), block};
  }

  std::optional<ListLength> list_length(const ModelConfig& config) const override {
    if (!num_shards_) return std::nullopt;
    const auto number = num_shards_->value(config);
    return number ? std::optional(ListLength{num_shards_->text(), *number}) : std::nullopt;
  }

  OperationPtr reverse() const override {
    return sizes_.empty() ? make_chunk(dim_, num_shards_) : make_split(dim_, sizes_);
  }
  std::string to_json() const override {
    const std::string sizes =
        sizes_.empty() ? "" : fmt::format(R"(, "sizes": {})", internal::to_json_list(sizes_));
    return fmt::format(R"({{"op": "Concatenate", "dim": {}{}{}}})", dim_, sizes,
                       shards_json(num_shards_));
  }

 private:
  void require_sizes(const std::vector<int64_t>& found, const OperationContext& context) const {
    if (sizes_.empty()) return;
    const auto sizes = internal::values_of(name(), sizes_, *context.config);
    if (found == sizes) return;
    refuse_operation(
        "shape_mismatch",
        fmt::format("Concatenate: the parts have sizes {} along dim {}, but sizes "
                    "says {}",
                    internal::to_json_list(found), dim_, internal::to_json_list(sizes)));
  }

  int dim_;
  std::vector<ConfigNumber> sizes_;
  std::optional<ConfigNumber> num_shards_;
};

void require_sizes(std::string_view operation, const std::vector<ConfigNumber>& sizes) {
  int64_t total = 0;
  for (const ConfigNumber& size : sizes) {
    const int64_t number = size.is_literal() ? size.value(ModelConfig()).value_or(-1) : 0;
    const auto sum = checked_add(total, number);
    if (number < 0 || !sum) {
      throw Error(ErrorCode::mapping, fmt::format("{}: sizes {} make no sense", operation,
                                                  internal::to_json_list(sizes)));
    }
    total = *sum;
  }
}

}  // namespace

OperationPtr make_chunk(int dim, std::optional<ConfigNumber> num_shards) {
  internal::require_dim("Chunk", dim);
  return std::make_shared<Chunk>(dim, std::move(num_shards));
}

OperationPtr make_split(int dim, std::vector<ConfigNumber> sizes) {
  internal::require_dim("Split", dim);
  require_sizes("Split", sizes);
  if (sizes.empty()) throw Error(ErrorCode::mapping, "Split: sizes is empty");
  return std::make_shared<Split>(dim, std::move(sizes));
}

OperationPtr make_concatenate(int dim, std::vector<ConfigNumber> sizes,
                              std::optional<ConfigNumber> num_shards) {
  internal::require_dim("Concatenate", dim);
  require_sizes("Concatenate", sizes);
  if (!sizes.empty() && num_shards) {
    throw Error(ErrorCode::mapping, "Concatenate: give sizes or num_shards_attribute, not both");
  }
  return std::make_shared<Concatenate>(dim, std::move(sizes), std::move(num_shards));
}

}  // namespace weightloom
