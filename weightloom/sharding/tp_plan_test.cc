#include "weightloom/sharding/tp_plan.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "weightloom/base/error_testing.h"
#include "weightloom/base/memory_files.h"

namespace weightloom::testing {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Pair;

constexpr const char* kPlan = R"({
  "layers.*.attn.q_proj": "colwise",
  "layers.*.attn.o_proj": "rowwise",
  "layers.*.mlp.experts": "ep_dispatch_experts",
  "layers.*.mlp.experts.gate_up_proj": "grouped_gemm",
  "layers.*.mlp.shared.up_proj": "colwise"})";

TpPlan plan_of(const char* json) { return parse_tp_plan(json, "plan.json"); }

/// Experts that both kinds of parallelism split.
TpPlan both() {
  return {{{"layers.*.q_proj", ParallelStyle::colwise},
           {"layers.*.experts", ParallelStyle::moe_tp_experts},
           {"layers.*.experts.up", ParallelStyle::packed_colwise},
           {"layers.*.experts.norm", ParallelStyle::colwise}},
          {{"layers.*.experts", ParallelStyle::ep_dispatch_experts},
           {"layers.*.experts.up", ParallelStyle::grouped_gemm}}};
}

Sharding spread(const TpPlan& plan, const char* mesh, const char* name, const Shape& shape) {
  return sharding_for(plan, MeshSet::parse(mesh), {std::string(name), shape});
}

TEST(TpPlanTest, NumbersOfLayersBecomeStars) {
  EXPECT_EQ(pattern_name("model.layers.12.mlp.w1.weight"), "model.layers.*.mlp.w1.weight");
  EXPECT_EQ(pattern_name("layers.3"), "layers.*");
  EXPECT_EQ(pattern_name("0.weight"), "0.weight");
  EXPECT_EQ(pattern_name("a.1.2.3.b"), "a.*.2.*.b");
  EXPECT_EQ(pattern_name("a.1b.c"), "a.1b.c");
  EXPECT_EQ(pattern_name("a..7."), "a..*.");
  EXPECT_EQ(pattern_name(""), "");
}

TEST(TpPlanTest, FsdpLeavesBuffersWhole) {
  const MeshSet mesh = MeshSet::parse("fsdp=2,tp=2");
  const TpPlan plan{{{"gate", ParallelStyle::colwise}}};
  EXPECT_EQ(sharding_for(plan, mesh, {"gate.bias", {6}, true}),
            (Sharding{.steps = {CutStep{"tp", 0}}}));
  EXPECT_EQ(sharding_for(plan, mesh, {"gate.bias", {6}, false}),
            (Sharding{.steps = {CutStep{"tp", 0}, CutStep{"fsdp", 0}}}));
}

TEST(TpPlanTest, ATensorHasItsOwnRuleElseThatOfItsModule) {
  const TpPlan plan{{{"layers.*.q", ParallelStyle::colwise},
                     {"layers.*.q.bias", ParallelStyle::replicate},
                     {"sinks", ParallelStyle::colwise}}};
  const Sharding rows{.steps = {CutStep{"tp", 0}}};
  EXPECT_EQ(spread(plan, "tp=2", "layers.7.q.weight", {6, 4}), rows);
  EXPECT_EQ(spread(plan, "tp=2", "layers.7.q.bias", {6}), Sharding{});
  EXPECT_EQ(spread(plan, "tp=2", "sinks", {6}), rows);
  // Neither what a rule's module holds deeper inside, nor what only begins like one.
  EXPECT_EQ(spread(plan, "tp=2", "layers.7.q.inner.weight", {6, 4}), Sharding{});
  EXPECT_EQ(spread(plan, "tp=2", "layers.7.qq.weight", {6, 4}), Sharding{});
}

TEST(TpPlanTest, FsdpCutsTheRowsOfWhatTensorParallelismLeft) {
  const TpPlan plan = plan_of(kPlan);
  EXPECT_EQ(spread(plan, "fsdp=2,tp=2", "layers.0.attn.q_proj.weight", {6, 4}),
            (Sharding{.steps = {CutStep{"tp", 0}, CutStep{"fsdp", 0}}}));
  EXPECT_EQ(spread(plan, "fsdp=2,tp=2", "layers.0.attn.o_proj.weight", {6, 4}),
            (Sharding{.steps = {CutStep{"tp", 1}, CutStep{"fsdp", 0}}}));
  EXPECT_EQ(spread(plan, "fsdp=2,tp=2", "norm.weight", {6}),
            (Sharding{.steps = {CutStep{"fsdp", 0}}}));
  EXPECT_EQ(spread(plan, "fsdp=2,tp=2", "scale", {}), Sharding{});
}

TEST(TpPlanTest, AnAxisThatIsNotThereOrHasOneRankDoesNothing) {
  const TpPlan plan = both();
  EXPECT_EQ(spread(plan, "fsdp=2", "layers.0.q_proj.weight", {6, 4}),
            (Sharding{.steps = {CutStep{"fsdp", 0}}}));
  EXPECT_EQ(spread(plan, "fsdp=1,tp=1,ep=1", "layers.0.experts.up", {4, 6, 2}), Sharding{});
  // Expert parallelism of one rank removes no rule of tensor parallelism.
  EXPECT_EQ(spread(plan, "ep=1,tp=2", "layers.0.experts.up", {4, 6, 2}),
            (Sharding{.steps = {CutStep{"tp", 1, Cut{.stripes = 2}}}}));
}

TEST(TpPlanTest, ExpertParallelismTakesTheRulesFromWhatItNames) {
  const TpPlan plan = both();
  EXPECT_EQ(spread(plan, "ep=2,tp=2", "layers.0.experts.up", {4, 6, 2}),
            (Sharding{.steps = {CutStep{"ep", 0}}}));
  EXPECT_EQ(spread(plan, "ep=2,tp=2", "layers.0.experts.norm.weight", {6, 4}), Sharding{});
  EXPECT_EQ(spread(plan, "ep=2,tp=2", "layers.0.q_proj.weight", {6, 4}),
            (Sharding{.steps = {CutStep{"tp", 0}}}));
}

TEST(TpPlanTest, ExpertsLieOnTheMeshOfThatName) {
  const TpPlan plan = both();
  const char* meshes = "dense: fsdp=4,tp=2; expert: efsdp=2,ep=4";
  EXPECT_EQ(spread(plan, meshes, "layers.0.experts.up", {4, 6, 2}),
            (Sharding{"expert", {CutStep{"ep", 0}, CutStep{"efsdp", 0}}}));
  EXPECT_EQ(spread(plan, meshes, "layers.0.experts.bias", {6}),
            (Sharding{"expert", {CutStep{"efsdp", 0}}}));
  EXPECT_EQ(spread(plan, meshes, "layers.0.q_proj.weight", {6, 4}),
            (Sharding{"", {CutStep{"tp", 0}, CutStep{"fsdp", 0}}}));
  // Whichever stands first.
  const char* turned = "expert: efsdp=2,ep=4; dense: fsdp=4,tp=2";
  EXPECT_EQ(spread(plan, turned, "layers.0.experts.up", {4, 6, 2}).mesh, "");
  EXPECT_EQ(spread(plan, turned, "layers.0.q_proj.weight", {6, 4}),
            (Sharding{"dense", {CutStep{"tp", 0}, CutStep{"fsdp", 0}}}));
}

TEST(TpPlanTest, ExpertsMayShareTheFsdpAxisOfOneMesh) {
  EXPECT_EQ(spread(both(), "ep=2,fsdp=2", "layers.0.experts.up", {4, 6, 2}),
            (Sharding{.steps = {CutStep{"ep", 0}, CutStep{"fsdp", 0}}}));
}

TEST(TpPlanTest, ExpertsThatDoNotDivideAreRefusedWithBothNumbers) {
  const auto refusal = refusal_of([] { spread(both(), "ep=3", "layers.0.experts.up", {4, 6, 2}); });
  ASSERT_TRUE(refusal);
  EXPECT_EQ(refusal->code(), ErrorCode::usage);
  EXPECT_STREQ(refusal->what(),
               "'layers.0.experts.up': 4 experts of the style 'grouped_gemm' do not divide among 3 "
               "ranks of the axis 'ep'");
}

TEST(TpPlanTest, AllThatDoesNotFitIsFoundAtOnce) {
  const std::vector<NamedShape> tensors = {{"layers.0.mlp.experts.gate_up_proj", {3, 6, 2}},
                                           {"layers.1.mlp.experts.gate_up_proj", {4, 6, 2}},
                                           {"layers.2.mlp.experts.gate_up_proj", {5, 6, 2}},
                                           {"layers.0.attn.q_proj.weight", {6, 4}},
                                           {"layers.0.mlp.shared.up_proj.weight", {6, 4}}};
  const PlannedShardings planned =
      shardings_for(plan_of(kPlan), MeshSet::parse("ep=2,tp=2"), tensors);
  ASSERT_EQ(planned.shardings.size(), 5u);
  EXPECT_EQ(planned.shardings[1], (Sharding{.steps = {CutStep{"ep", 0}}}));
  EXPECT_EQ(planned.shardings[4], (Sharding{.steps = {CutStep{"tp", 0}}}));
  ASSERT_EQ(planned.findings.size(), 3u);
  EXPECT_EQ(planned.findings[0].code, "bad_style");
  EXPECT_EQ(planned.findings[0].severity, Severity::error);
  EXPECT_EQ(planned.findings[0].tensor, "layers.0.mlp.experts.gate_up_proj");
  EXPECT_EQ(planned.findings[1].tensor, "layers.2.mlp.experts.gate_up_proj");
  EXPECT_EQ(planned.findings[2].code, "unused_rule");
  EXPECT_EQ(planned.findings[2].severity, Severity::report);
  EXPECT_EQ(planned.findings[2].message,
            "plan.json: the rule 'layers.*.attn.o_proj' matches no tensor");
}

TEST(TpPlanTest, RulesOfAModelsOwnPlanMayMatchNothing) {
  const std::vector<NamedShape> tensors = {{"norm.weight", {6}}};
  EXPECT_THAT(shardings_for(both(), MeshSet::parse("tp=2"), tensors).findings, IsEmpty());
}

TEST(TpPlanTest, AxesThatNoRuleIsForAreRefused) {
  const auto says = [](const TpPlan& plan, const char* mesh) {
    const auto refusal = refusal_of([&] { check_axes(plan, MeshSet::parse(mesh)); });
    return refusal ? std::string(refusal->what()) : "";
  };
  EXPECT_EQ(says(both(), "dp=2,replicate=2,hsdp=2,fsdp=2,ep=2,tp=2"), "");
  EXPECT_EQ(says({}, "fsdp=2,tp=1,ep=1,cp=1"), "");
  EXPECT_EQ(says(both(), "tp=2,cp=3"),
            "axis 'cp' of the mesh 'tp=2,cp=3': a plan does not say what it cuts");
  EXPECT_EQ(says({}, "fsdp=2,tp=2"),
            "axis 'tp' of the mesh 'fsdp=2,tp=2': the plan has no rules for it");
  EXPECT_EQ(says({{{"a", ParallelStyle::colwise}}}, "dense: tp=2; expert: ep=2"),
            "axis 'ep' of the mesh 'ep=2': the plan has no rules for it");
}

TEST(TpPlanTest, AFileHoldsStylesByPattern) {
  MemoryFiles files;
  files.add_text("/plan.json", kPlan);
  const TpPlan plan = read_tp_plan(files.calls(), "/plan.json");
  EXPECT_THAT(plan.ep,
              ElementsAre(Pair("layers.*.mlp.experts", ParallelStyle::ep_dispatch_experts),
                          Pair("layers.*.mlp.experts.gate_up_proj", ParallelStyle::grouped_gemm)));
  EXPECT_EQ(plan.tp.size(), 3u);
  EXPECT_EQ(plan.file, "/plan.json");
}

TEST(TpPlanTest, AFileThatIsWrongIsRefusedWithThePlace) {
  const auto says = [](const char* json) {
    const auto refusal = refusal_of([&] { plan_of(json); });
    return refusal ? std::string(refusal->what()) : "";
  };
  EXPECT_EQ(says(R"({"q": "colwize"})"), "plan.json: 'q': there is no parallel style 'colwize'");
  EXPECT_EQ(says(R"({"q": 1})"), "plan.json: 'q': the style must be a string");
  EXPECT_THAT(says(R"({"q": "colwise", "q": "rowwise"})"), HasSubstr("'q'"));
  EXPECT_THAT(says("[]"), HasSubstr("plan.json"));
}

}  // namespace
}  // namespace weightloom::testing
