// ErnieFuseAndSplitTextVisionExperts and its reverse: one list of experts whose first part is a
// text model's and whose last part a vision model's.
#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "weightloom/base/checked.h"
#include "weightloom/layout/operations.h"
#include "weightloom/mapping/operation_experts_internal.h"
#include "weightloom/mapping/operation_internal.h"

namespace weightloom::internal {
namespace {

using Slots = std::vector<Slot>;

std::string json_of(std::string_view operation, int stack_dim, int concat_dim) {
  return fmt::format(R"({{"op": "{}", "stack_dim": {}, "concat_dim": {}}})", operation, stack_dim,
                     concat_dim);
}

/// The items of part `part` of `parts` runs of a list; the last ones may be shorter.
std::vector<Layout> run_of(const Slot& slot, size_t part, size_t parts) {
  const auto size =
      static_cast<size_t>(ceil_div(std::ssize(slot.items), static_cast<int64_t>(parts)));
  const size_t begin = std::min(part * size, slot.items.size());
  const size_t end = std::min(begin + size, slot.items.size());
  return {slot.items.begin() + static_cast<std::ptrdiff_t>(begin),
          slot.items.begin() + static_cast<std::ptrdiff_t>(end)};
}

/// Per target: a run of each source's list, stacked; then the sources' stacks, joined.
class FuseAndSplit final : public ConversionOperation {
 public:
  FuseAndSplit(int stack_dim, int concat_dim) : stack_dim_(stack_dim), concat_dim_(concat_dim) {}

  std::string name() const override { return "ErnieFuseAndSplitTextVisionExperts"; }

  Slots apply(Slots slots, const OperationContext& context) const override {
    const auto targets = static_cast<size_t>(context.targets);
    std::vector<Layout> fused;
    for (size_t target = 0; target < targets; ++target) {
      std::vector<Layout> stacks;
      for (const Slot& slot : slots) stacks.push_back(stacked(slot, target, targets));
      size_of_dim(name(), stacks.front(), concat_dim_);
      require_equal_shapes(name(), stacks, concat_dim_);
      fused.push_back(concat(stacks, concat_dim_));
    }
    return slots_of_parts(std::move(fused), context);
  }

  OperationPtr reverse() const override { return make_split_experts(stack_dim_, concat_dim_); }
  std::string to_json() const override { return json_of(name(), stack_dim_, concat_dim_); }

 private:
  Layout stacked(const Slot& slot, size_t part, size_t parts) const {
    const std::vector<Layout> run = run_of(slot, part, parts);
    if (!slot.is_list || run.empty()) {
      refuse_operation("operation_refused",
                       fmt::format("{}: '{}' gives {} experts, too few for {} targets", name(),
                                   slot.pattern, slot.items.size(), parts));
    }
    require_equal_shapes(name(), run, -1);
    if (stack_dim_ > run.front().rank()) {
      refuse_operation("shape_mismatch",
                       fmt::format("{}: there is no place for dim {} in {}", name(), stack_dim_,
                                   to_string(run.front().shape())));
    }
    return stack(run, stack_dim_);
  }

  int stack_dim_;
  int concat_dim_;
};

/// Per target: its part of each source, taken apart, one list after the other.
class SplitAndDecouple final : public ConversionOperation {
 public:
  SplitAndDecouple(int stack_dim, int concat_dim)
      : stack_dim_(stack_dim), concat_dim_(concat_dim) {}

  std::string name() const override { return "ErnieSplitAndDecoupleTextVisionExperts"; }

  Slots apply(Slots slots, const OperationContext& context) const override {
    Slots lists(static_cast<size_t>(context.targets));
    for (size_t target = 0; target < lists.size(); ++target) {
      lists[target].is_list = true;
      lists[target].pattern = context.target_patterns[target];
    }
    for (const Slot& slot : slots) {
      const std::vector<Layout> parts = parts_of(slot, context.targets);
      for (size_t target = 0; target < parts.size(); ++target) {
        size_of_dim(name(), parts[target], stack_dim_);
        std::ranges::move(unstack(parts[target], stack_dim_),
                          std::back_inserter(lists[target].items));
      }
    }
    return lists;
  }

  OperationPtr reverse() const override { return make_fuse_experts(stack_dim_, concat_dim_); }
  std::string to_json() const override { return json_of(name(), stack_dim_, concat_dim_); }

 private:
  std::vector<Layout> parts_of(const Slot& slot, int64_t parts) const {
    const Layout whole = only_tensor(name(), {slot});
    const int64_t size = size_of_dim(name(), whole, concat_dim_);
    if (size % parts != 0) {
      refuse_operation("shape_mismatch",
                       fmt::format("{}: dim {} of {} does not divide into {} equal parts", name(),
                                   concat_dim_, to_string(whole.shape()), parts));
    }
    return split(whole, concat_dim_,
                 std::vector<int64_t>(static_cast<size_t>(parts), size / parts));
  }

  int stack_dim_;
  int concat_dim_;
};

}  // namespace

OperationPtr make_fuse_experts(int stack_dim, int concat_dim) {
  require_dim("ErnieFuseAndSplitTextVisionExperts", std::min(stack_dim, concat_dim));
  return std::make_shared<FuseAndSplit>(stack_dim, concat_dim);
}

OperationPtr make_split_experts(int stack_dim, int concat_dim) {
  require_dim("ErnieSplitAndDecoupleTextVisionExperts", std::min(stack_dim, concat_dim));
  return std::make_shared<SplitAndDecouple>(stack_dim, concat_dim);
}

}  // namespace weightloom::internal
