#include "weightloom/cli/rank_plans.h"

#include <array>
#include <numeric>
#include <set>
#include <string>

#include <gtest/gtest.h>

#include "weightloom/base/temporary_folder_testing.h"
#include "weightloom/plan/tiny_checkpoint_testing.h"

namespace weightloom::cli {
namespace {

constexpr const char* kPlacements =
    R"([{"pattern": "*", "placements": [{"axis": "tp", "shard": 1}, {"axis": "fsdp", "shard": 0}]}])";

/// Four layers that are alike, and an embedding, cut within rows by tp and along them by fsdp.
class RankPlansTest : public ::testing::Test {
 protected:
  static std::vector<TensorSpec> specs() {
    std::vector<TensorSpec> specs = {{"embed.weight", DType::F32, {12, 8}}};
    for (int layer = 0; layer < 4; ++layer) {
      specs.push_back({"layers." + std::to_string(layer) + ".weight", DType::F32, {7, 8}});
    }
    return specs;
  }

  Checkpoint written_source() const {
    testing::write_folder(folder_ / "hub", testing::checkpoint_files(specs(), 90));
    return Checkpoint::open(calls_, folder_ / "hub");
  }

  PlanReport planned() const {
    Selection selection;
    selection.meshes = MeshSet::parse("fsdp=3,tp=2");
    selection.placements = parse_placements(kPlacements, "p.json");
    return make_plan(calls_, source_, selection, run_);
  }

  const TemporaryFolder folder_;
  const Syscalls& calls_ = testing::quick_calls();
  const Checkpoint source_ = written_source();
  const RunOptions run_;
  const PlanReport report_ = planned();
  RankPlans ranks_{calls_, source_, report_, run_};
};

TEST_F(RankPlansTest, EachRankCostsWhatItsProgramCosts) {
  std::set<int64_t> sizes;
  for (int64_t rank = 0; rank < ranks_.world_size(); ++rank) {
    const RankPlan plan = ranks_.of(rank);
    const Cost direct = cost_of_conversion(plan.program, run_);
    EXPECT_EQ(plan.cost.bytes_read, direct.bytes_read) << rank;
    EXPECT_EQ(plan.cost.tiles, direct.tiles) << rank;
    EXPECT_EQ(plan.cost.working_memory_bytes, direct.working_memory_bytes) << rank;
    EXPECT_EQ(plan.cost.target_bytes_read, direct.target_bytes_read) << rank;
    sizes.insert(plan.cost.bytes_written);
  }
  EXPECT_EQ(sizes.size(), 2U);  // of seven rows the last rank has one
}

TEST_F(RankPlansTest, TogetherTheyCostWhatAllPartsOfEachTargetCost) {
  std::vector<int64_t> all(static_cast<size_t>(ranks_.world_size()));
  std::iota(all.begin(), all.end(), int64_t{0});
  const Cost together = ranks_.together();
  Cost direct;
  for (size_t i = 0; i < ranks_.whole().targets().size(); ++i) {
    const CopyProgram one = ranks_.whole().with_targets({ranks_.whole().targets()[i]});
    const Spread spread{ranks_.spread().meshes, {ranks_.spread().shardings[i]}};
    const Cost cost = cost_of_conversion(program_of_ranks(one, spread, all).program, run_);
    direct.bytes_read += cost.bytes_read;
    direct.regions += cost.regions;
    direct.tiles += cost.tiles;
  }
  EXPECT_EQ(together.bytes_read, direct.bytes_read);
  EXPECT_EQ(together.regions, direct.regions);
  EXPECT_EQ(together.tiles, direct.tiles);
  EXPECT_EQ(together.bytes_read, report_.cost.bytes_read);
}

}  // namespace
}  // namespace weightloom::cli
