// Plans over a mesh: who says how a target is cut.
#include <map>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "weightloom/base/error_testing.h"
#include "weightloom/base/temporary_folder_testing.h"
#include "weightloom/plan/conversion.h"
#include "weightloom/plan/tiny_checkpoint_testing.h"

namespace weightloom::testing {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

/// (axis, dim, stripes) of each cut, in order.
using Cuts = std::vector<std::tuple<std::string, int, int64_t>>;

const std::string kGateUp = "model.layers.0.mlp.experts.gate_up_proj";
const std::string kDown = "model.layers.0.mlp.experts.down_proj";
const std::string kGate = "model.layers.0.mlp.gate.weight";

class ConversionSpreadTest : public ::testing::Test {
 protected:
  ConversionSpreadTest() { write_folder(at("hub"), hub_files()); }

  std::string at(const std::string& name) const { return folder_ / name; }

  static Selection over(const std::string& mesh, const std::string& plan = "auto") {
    Selection selection;
    selection.to = Side::runtime;
    selection.architecture = "MixtralForCausalLM";
    selection.meshes = MeshSet::parse(mesh);
    if (!plan.empty()) selection.tp_plan = plan;
    return selection;
  }

  Conversion plan(const Selection& selection, const std::string& folder = "hub") const {
    return plan_conversion(system_calls(), Checkpoint::open(system_calls(), at(folder)), selection,
                           Registry::built_in());
  }

  std::map<std::string, Cuts> cuts(const Selection& selection) const {
    const Conversion made = plan(selection);
    EXPECT_THAT(made.findings, IsEmpty());
    std::map<std::string, Cuts> cuts;
    for (size_t i = 0; i < made.program.targets().size(); ++i) {
      Cuts& of_target = cuts[made.program.targets()[i].name];
      for (const ShardingStep& step : made.spread->shardings[i].steps) {
        const CutStep& cut = std::get<CutStep>(step);
        of_target.emplace_back(cut.axis, cut.dim, cut.cut.stripes);
      }
    }
    return cuts;
  }

  TemporaryFolder folder_;
};

TEST_F(ConversionSpreadTest, TheModelsOwnPlanCutsTargetsByTheirRuntimeNames) {
  auto made = cuts(over("tp=2"));
  EXPECT_THAT(made["lm_head.weight"], ElementsAre(std::tuple("tp", 0, 1)));
  EXPECT_THAT(made[kGateUp], ElementsAre(std::tuple("tp", 1, 2)));
  EXPECT_THAT(made[kDown], ElementsAre(std::tuple("tp", 2, 1)));
  EXPECT_THAT(made[kGate], IsEmpty());
}

TEST_F(ConversionSpreadTest, ExpertsGoAlongTheirAxisAndFsdpCutsWhatIsLeft) {
  auto made = cuts(over("fsdp=2,ep=2"));
  EXPECT_THAT(made[kGateUp], ElementsAre(std::tuple("ep", 0, 1), std::tuple("fsdp", 0, 1)));
  EXPECT_THAT(made[kGate], ElementsAre(std::tuple("fsdp", 0, 1)));
}

TEST_F(ConversionSpreadTest, PlacementsGoBeforeThePlan) {
  Selection selection = over("fsdp=2,tp=2");
  selection.placements = parse_placements(
      R"([{"pattern": "*down_proj", "placements": [{"axis": "tp", "shard": 0}]}])", "p.json");
  auto made = cuts(selection);
  EXPECT_THAT(made[kDown], ElementsAre(std::tuple("tp", 0, 1)));
  EXPECT_THAT(made["lm_head.weight"],
              ElementsAre(std::tuple("tp", 0, 1), std::tuple("fsdp", 0, 1)));
}

TEST_F(ConversionSpreadTest, APlanOfOnesOwnIsReadFromAFile) {
  write_text(at("plan.json"), R"({"model.layers.*.mlp.gate": "rowwise"})");
  auto made = cuts(over("tp=2", at("plan.json")));
  EXPECT_THAT(made[kGate], ElementsAre(std::tuple("tp", 1, 1)));
  EXPECT_THAT(made["lm_head.weight"], IsEmpty());
}

TEST_F(ConversionSpreadTest, WithoutConfigThereIsNoPlanOfTheModel) {
  Folder files = hub_files();
  files.erase("config.json");
  write_folder(at("bare"), files);
  Selection selection = over("tp=2");
  selection.mapping = "mixtral";
  const auto refusal = refusal_of([&] { plan(selection, "bare"); });
  ASSERT_TRUE(refusal);
  EXPECT_EQ(refusal->code(), ErrorCode::usage);
  EXPECT_THAT(refusal->what(), HasSubstr("no config.json, so the model is unknown"));
  EXPECT_THAT(refusal->next_step(), HasSubstr("--tp-plan FILE"));
}

TEST_F(ConversionSpreadTest, PlansNameTensorsOfTheRuntimeLayout) {
  Selection selection = over("tp=2");
  selection.to = Side::hub;
  const auto refusal = refusal_of([&] { plan(selection); });
  ASSERT_TRUE(refusal);
  EXPECT_THAT(refusal->next_step(), HasSubstr("--to runtime"));
}

/// Rules that were named leave the base model's prefix, and the plan of the base model has none:
/// replicas in place of parts would be silently wrong.
TEST_F(ConversionSpreadTest, AModelsPlanThatCutsNothingAlongAnAxisIsRefused) {
  Selection selection = over("tp=2");
  selection.architecture = "MixtralModel";
  selection.mapping = "mixtral";
  const Conversion made = plan(selection);
  ASSERT_EQ(made.findings.size(), 1U);
  EXPECT_EQ(made.findings.front().code, "nothing_cut");
  EXPECT_EQ(made.findings.front().severity, Severity::error);
  EXPECT_THAT(made.findings.front().message, HasSubstr("cuts no target along axis 'tp'"));
}

TEST_F(ConversionSpreadTest, ExpertsThatDoNotDivideAreRefused) {
  const Conversion made = plan(over("ep=3"));
  ASSERT_EQ(made.findings.size(), 2U);
  EXPECT_EQ(made.findings.front().code, "bad_style");
  EXPECT_THAT(made.findings.front().message, HasSubstr("2 experts"));
}

}  // namespace
}  // namespace weightloom::testing
