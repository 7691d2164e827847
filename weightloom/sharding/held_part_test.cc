#include "weightloom/sharding/held_part.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "weightloom/base/error_testing.h"

namespace weightloom::testing {
namespace {

using ::testing::HasSubstr;
using Kind = DTensorPlacement::Kind;

/// FSDP over TP of a vector, on a mesh of 3 by 2.
RankTensor fsdp_over_tp(int64_t rows, int64_t local_rows) {
  return {.name = "w",
          .shape = {rows},
          .local_shape = {local_rows},
          .axes = {{"fsdp", 3}, {"tp", 2}},
          .placements = {{Kind::strided_shard, 0, 2}, {Kind::shard, 0}}};
}

Segments rows_held(const RankTensor& tensor, const std::vector<int64_t>& coordinate) {
  return local_part(held_part(tensor, coordinate), one_rank(), tensor.shape, 0)->front();
}

// Of 7 rows tp has 4 and 3; fsdp cuts these 2, 2, 0 and 1, 1, 1. torch reads 2, 1, 1 and 2, 1, 0.
TEST(HeldPartTest, TheOrderCountsThatGivesTheShapeThatIsHeld) {
  EXPECT_EQ(rows_held(fsdp_over_tp(7, 0), {2, 0}), Segments());
  EXPECT_EQ(rows_held(fsdp_over_tp(7, 1), {2, 0}), (Segments{{6, 1}}));
  EXPECT_EQ(rows_held(fsdp_over_tp(7, 1), {2, 1}), (Segments{{6, 1}}));
  EXPECT_EQ(rows_held(fsdp_over_tp(7, 0), {2, 1}), Segments());
  EXPECT_EQ(rows_held(fsdp_over_tp(12, 2), {1, 1}), (Segments{{8, 2}}));
}

TEST(HeldPartTest, WithoutAMeshAllIsHeld) {
  EXPECT_EQ(held_part({.name = "w", .shape = {4, 3}, .local_shape = {4, 3}}, {}), Sharding());
}

TEST(HeldPartTest, WhatFitsNeitherOrBothIsRefused) {
  const auto neither = refusal_of([] { held_part(fsdp_over_tp(7, 5), {2, 0}); });
  ASSERT_TRUE(neither);
  EXPECT_EQ(neither->code(), ErrorCode::usage);
  EXPECT_THAT(neither->what(), HasSubstr("this rank's part is [0] where FSDP cut last, [1] as "
                                         "torch reads the placements"));
  const auto nowhere = refusal_of([] { held_part(fsdp_over_tp(12, 2), {3, 0}); });
  ASSERT_TRUE(nowhere);
  EXPECT_THAT(nowhere->what(), HasSubstr("there is no place [3, 0] on this mesh"));
}

// 16 rows by expert parallelism in stripes, then by FSDP: dtensor_placements.h tells of it.
TEST(HeldPartTest, PartsOfOneShapeWithOtherRowsAreRefused) {
  const RankTensor tensor{
      .name = "w",
      .shape = {16},
      .local_shape = {2},
      .axes = {{"a", 2}, {"b", 2}, {"c", 2}},
      .placements = {{Kind::strided_shard, 0, 4}, {Kind::shard, 0}, {Kind::strided_shard, 0, 2}}};
  const auto refusal = refusal_of([&] { held_part(tensor, {0, 0, 0}); });
  ASSERT_TRUE(refusal);
  EXPECT_THAT(refusal->what(), HasSubstr("fits other rows where FSDP cut last"));
}

}  // namespace
}  // namespace weightloom::testing
