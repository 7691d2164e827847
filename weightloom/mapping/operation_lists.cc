// MergeModulelist and SplitModulelist: a list of tensors and their stack.
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "weightloom/layout/operations.h"
#include "weightloom/mapping/operation_internal.h"

namespace weightloom {
namespace {

using Slots = std::vector<Slot>;

using Counts = std::vector<ConfigNumber>;

std::optional<ListLength> length_in(const ModelConfig& config, const Counts& counts) {
  for (const auto& count : counts) {
    if (const auto value = count.value(config)) return ListLength{count.text(), *value};
  }
  return std::nullopt;
}

void require_length(std::string_view operation, const std::optional<ListLength>& wanted,
                    size_t found) {
  if (!wanted || std::cmp_equal(wanted->length, found)) return;
  refuse_operation("count_mismatch",
                   fmt::format("{}: there are {} items, but config.json says {} = {}", operation,
                               found, wanted->key, wanted->length));
}

std::string json_of(std::string_view operation, int dim, const Counts& count) {
  if (count.empty()) return fmt::format(R"({{"op": "{}", "dim": {}}})", operation, dim);
  return fmt::format(R"({{"op": "{}", "dim": {}, "count": {}}})", operation, dim,
                     internal::to_json_list(count));
}

class MergeModulelist final : public ConversionOperation {
 public:
  MergeModulelist(int dim, Counts count) : dim_(dim), count_(std::move(count)) {}

  std::string name() const override { return "MergeModulelist"; }

  Slots apply(Slots slots, const OperationContext& context) const override {
    const auto length = list_length(*context.config);
    for (auto& slot : slots) merge(slot, length);
    return slots;
  }

  OnBlocks on_blocks(const Slots&, const BlockShape& block,
                     const OperationContext&) const override {
    OnBlocks result{make_merge_modulelist(dim_, count_), block};
    result.block.insert(result.block.begin() + dim_, 1);
    return result;
  }

  OperationPtr reverse() const override { return make_split_modulelist(dim_, count_); }
  std::optional<ListLength> list_length(const ModelConfig& config) const override {
    return length_in(config, count_);
  }
  std::string to_json() const override { return json_of(name(), dim_, count_); }

 private:
  void merge(Slot& slot, const std::optional<ListLength>& length) const {
    if (!slot.is_list || slot.items.empty()) {
      refuse_operation(
          "operation_refused",
          fmt::format("MergeModulelist takes lists, but '{}' collects none: write '*.' where the "
                      "index stands",
                      slot.pattern));
    }
    require_length(name(), length, slot.items.size());
    internal::require_equal_shapes(name(), slot.items, -1);
    if (dim_ > slot.items.front().rank()) {
      refuse_operation("shape_mismatch",
                       fmt::format("MergeModulelist: there is no place for dim {} in {}", dim_,
                                   to_string(slot.items.front().shape())));
    }
    std::vector<Layout> whole;
    whole.push_back(stack(slot.items, dim_));
    slot.items = std::move(whole);
    slot.is_list = false;
  }

  int dim_;
  Counts count_;
};

class SplitModulelist final : public ConversionOperation {
 public:
  SplitModulelist(int dim, Counts count) : dim_(dim), count_(std::move(count)) {}

  std::string name() const override { return "SplitModulelist"; }

  Slots apply(Slots slots, const OperationContext& context) const override {
    const auto length = length_in(*context.config, count_);
    for (auto& slot : slots) {
      if (slot.is_list || slot.items.size() != 1) {
        refuse_operation(
            "operation_refused",
            fmt::format("SplitModulelist takes tensors, but '{}' is a list", slot.pattern));
      }
      if (internal::size_of_dim(name(), slot.items.front(), dim_) == 0) {
        refuse_operation("shape_mismatch",
                         fmt::format("SplitModulelist: dim {} of {} has no items", dim_,
                                     to_string(slot.items.front().shape())));
      }
      slot.items = unstack(slot.items.front(), dim_);
      slot.is_list = true;
      require_length(name(), length, slot.items.size());
    }
    return slots;
  }

  OnBlocks on_blocks(const Slots&, const BlockShape& block,
                     const OperationContext&) const override {
    const int64_t size = block[static_cast<size_t>(dim_)];
    if (size != 1) {
      refuse_operation(
          "companion_refused",
          fmt::format("{}: a block is {} along dim {}, so it would be taken apart", name(),
                      size == kWholeDim ? "the whole" : std::to_string(size), dim_));
    }
    OnBlocks result{make_split_modulelist(dim_, count_), block};
    result.block.erase(result.block.begin() + dim_);
    return result;
  }

  OperationPtr reverse() const override { return make_merge_modulelist(dim_, count_); }
  std::string to_json() const override { return json_of(name(), dim_, count_); }

 private:
  int dim_;
  Counts count_;
};

}  // namespace

OperationPtr make_merge_modulelist(int dim, std::vector<ConfigNumber> count) {
  internal::require_dim("MergeModulelist", dim);
  return std::make_shared<MergeModulelist>(dim, std::move(count));
}

OperationPtr make_split_modulelist(int dim, std::vector<ConfigNumber> count) {
  internal::require_dim("SplitModulelist", dim);
  return std::make_shared<SplitModulelist>(dim, std::move(count));
}

}  // namespace weightloom
