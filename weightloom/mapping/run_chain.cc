#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "weightloom/mapping/companion_groups_internal.h"
#include "weightloom/mapping/run_chain_internal.h"

namespace weightloom {
namespace {

/// The blocks at the end must be those that were declared, or what is said of them is untrue.
void require_declared_blocks(const ChainTensors& companions, const BlockShape& block) {
  for (const Slot& slot : companions.slots) {
    if (slot.items.empty()) continue;
    const BlockShape wanted = block_of_rank(companions.block, slot.items.front().rank());
    if (block == wanted) continue;
    refuse_operation(
        "companion_refused",
        fmt::format("blocks of '{}' would be [{}], but [{}] are declared", companions.suffix,
                    fmt::join(block, ", "), fmt::join(wanted, ", ")));
  }
}

class ChainRun {
 public:
  ChainRun(ChainGroup group, const OperationContext& context)
      : group_(std::move(group)), context_(context) {
    for (size_t i = 1; i < group_.size(); ++i) {
      const int rank = group_.front().slots.front().items.front().rank();
      blocks_.push_back(block_of_rank(group_[i].block, rank));
    }
  }

  void step(const ConversionOperation& operation) {
    auto& slots = group_.front().slots;
    if (blocks_.empty()) {
      slots = operation.apply(std::move(slots), context_);
      return;
    }
    std::vector<Slot> next = operation.apply(slots, context_);
    for (size_t i = 0; i < blocks_.size(); ++i) {
      OnBlocks on_blocks = operation.on_blocks(slots, blocks_[i], context_);
      auto& grids = group_[i + 1].slots;
      grids = on_blocks.operation->apply(std::move(grids), context_);
      blocks_[i] = std::move(on_blocks.block);
    }
    slots = std::move(next);
  }

  ChainGroup finish() && {
    for (size_t i = 0; i < blocks_.size(); ++i) {
      require_declared_blocks(group_[i + 1], blocks_[i]);
    }
    return std::move(group_);
  }

 private:
  ChainGroup group_;
  const OperationContext& context_;
  std::vector<BlockShape> blocks_;  // of each companion, now
};

}  // namespace

ChainGroup run_chain(const WeightConverter& converter, ChainGroup group,
                     const OperationContext& context) {
  ChainRun run(std::move(group), context);
  for (const auto& operation : converter.operations) run.step(*operation);
  return std::move(run).finish();
}

}  // namespace weightloom
