#include "weightloom/sharding/parallel_style.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "weightloom/base/error_testing.h"

namespace weightloom::testing {
namespace {

using ::testing::HasSubstr;
using enum ParallelStyle;

std::optional<CutStep> cut(ParallelStyle style, const Shape& shape, const char* name = "p.weight") {
  return cut_by(style, "tp", name, shape);
}

std::optional<CutStep> along(int dim, int64_t stripes = 1) {
  return CutStep{"tp", dim, Cut{.stripes = stripes}};
}

// The expectations are the facts' table, which was read off Transformers 5.23.

TEST(ParallelStyleTest, ColwiseCutsOutputFeatures) {
  for (const ParallelStyle style : {colwise, colwise_gather_output, colwise_rep}) {
    EXPECT_EQ(cut(style, {6}, "p.bias"), along(0));
    EXPECT_EQ(cut(style, {6, 4}), along(0));
    EXPECT_EQ(cut(style, {3, 6, 4}), along(1));
  }
}

TEST(ParallelStyleTest, RowwiseCutsInputFeaturesAndLeavesTheBias) {
  for (const ParallelStyle style : {rowwise, rowwise_split_input, rowwise_rep}) {
    EXPECT_EQ(cut(style, {6}, "p.bias"), std::nullopt);
    EXPECT_EQ(cut(style, {6}, "p.weight_scale"), along(0));
    EXPECT_EQ(cut(style, {6}, "p.down_proj_bias"), along(0));
    EXPECT_EQ(cut(style, {6, 4}), along(1));
    EXPECT_EQ(cut(style, {3, 6, 4}), along(2));
  }
}

TEST(ParallelStyleTest, PackedStylesCutEachHalfOfAWeightOnly) {
  EXPECT_EQ(cut(packed_colwise, {6}), along(0));
  EXPECT_EQ(cut(packed_colwise, {6, 4}), along(0, 2));
  EXPECT_EQ(cut(packed_colwise, {3, 6, 4}), along(1, 2));
  EXPECT_EQ(cut(packed_rowwise, {6}), std::nullopt);
  EXPECT_EQ(cut(packed_rowwise, {6, 4}), along(1, 2));
  EXPECT_EQ(cut(packed_rowwise, {3, 6, 4}), along(2, 2));
}

TEST(ParallelStyleTest, EmbeddingsAndExpertsAreCutAlongOneDim) {
  EXPECT_EQ(cut(embedding_rowwise, {6, 4}), along(0));
  EXPECT_EQ(cut(embedding_colwise, {6, 4}), along(1));
  EXPECT_EQ(cut(grouped_gemm, {4, 6, 2}), along(0));
  EXPECT_EQ(cut(grouped_gemm, {4, 6}), along(0));
}

TEST(ParallelStyleTest, StylesThatOnlyComputeLeaveTensorsWhole) {
  for (const ParallelStyle style :
       {ep_dispatch_experts, moe_tp_experts, moe_identity_expert, mla_kv_a_proj,
        replicated_with_grad_allreduce, all_reduce, sequence_parallel, local_params, replicate}) {
    EXPECT_FALSE(cuts_tensors(style)) << to_string(style);
    EXPECT_EQ(cut(style, {6, 4}), std::nullopt) << to_string(style);
  }
}

TEST(ParallelStyleTest, ATensorWithoutDimsIsWhole) {
  EXPECT_EQ(cut(colwise, {}), std::nullopt);
  EXPECT_EQ(cut(grouped_gemm, {}), std::nullopt);
}

TEST(ParallelStyleTest, ADimThatIsNotThereIsNamed) {
  const auto refusal = refusal_of([] { cut(embedding_colwise, {7}, "embed_tokens.weight"); });
  ASSERT_TRUE(refusal);
  EXPECT_EQ(refusal->code(), ErrorCode::usage);
  EXPECT_STREQ(refusal->what(),
               "'embed_tokens.weight': the style 'embedding_colwise' cuts dim 1, but the shape is "
               "[7]");
}

TEST(ParallelStyleTest, NamesGoThereAndBack) {
  EXPECT_EQ(to_string(packed_rowwise), "packed_rowwise");
  EXPECT_EQ(parse_style("mla_kv_a_proj", "here"), mla_kv_a_proj);
  EXPECT_EQ(parse_style("replicate", "here"), replicate);
}

TEST(ParallelStyleTest, AMisspeltStyleIsRefusedWithTheNearest) {
  const auto refusal = refusal_of([] { parse_style("colwize", "plan.json: 'q_proj'"); });
  ASSERT_TRUE(refusal);
  EXPECT_EQ(refusal->code(), ErrorCode::format);
  EXPECT_STREQ(refusal->what(), "plan.json: 'q_proj': there is no parallel style 'colwize'");
  EXPECT_THAT(refusal->next_step(), HasSubstr("'colwise'"));
}

TEST(ParallelStyleTest, TheRemovedRouterStyleIsRefusedWithAdvice) {
  const auto refusal = refusal_of([] { parse_style("ep_router", "plan.json: 'gate'"); });
  ASSERT_TRUE(refusal);
  EXPECT_EQ(refusal->code(), ErrorCode::format);
  EXPECT_THAT(refusal->next_step(), HasSubstr("ep_dispatch_experts"));
  EXPECT_THAT(refusal->next_step(), HasSubstr("grouped_gemm"));
}

}  // namespace
}  // namespace weightloom::testing
