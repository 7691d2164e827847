#include "weightloom/cli/tensor_groups.h"

#include <gtest/gtest.h>

namespace weightloom::cli {
namespace {

TEST(TensorGroupsTest, OneDtypeAndShapeIsOneGroup) {
  TensorGroups groups;
  groups.add("l.0.w", DType::BF16, {2, 3}, 12);
  groups.add("l.1.w", DType::BF16, {2, 3}, 12);
  groups.add("l.2.w", DType::F16, {2, 3}, 12);
  groups.add("l.3.w", DType::BF16, {3, 2}, 12);
  ASSERT_EQ(groups.groups().size(), 3);
  EXPECT_EQ(groups.groups()[0].name.text(), "l.{0..1}.w");
  EXPECT_EQ(groups.groups()[0].bytes, 24);
  EXPECT_EQ(groups.groups()[1].name.text(), "l.2.w");
  EXPECT_EQ(groups.groups()[2].name.text(), "l.3.w");
}

TEST(TensorGroupsTest, SourcesFoldByTheirSkeletons) {
  using Names = std::vector<std::string_view>;
  TensorGroups groups;
  groups.add("l.0.up", DType::F32, {2}, 8, Names{"l.0.e.0.w1", "l.0.e.0.w3", "l.0.e.1.w1"});
  groups.add("l.1.up", DType::F32, {2}, 8, Names{"l.1.e.0.w1", "l.1.e.0.w3", "l.1.e.1.w1"});
  groups.add("l.2.up", DType::F32, {2}, 8, Names{"l.2.x"});
  ASSERT_EQ(groups.groups().size(), 2);
  const auto& sources = groups.groups()[0].sources;
  ASSERT_EQ(sources.size(), 2);
  EXPECT_EQ(sources[0].text(), "l.{0..1}.e.{0..1}.w1");
  EXPECT_EQ(sources[0].count(), 4);
  EXPECT_EQ(sources[1].text(), "l.{0..1}.e.0.w3");
}

TEST(TensorGroupsTest, OneIsNotCounted) {
  EXPECT_EQ(times_text(1), "");
  EXPECT_EQ(times_text(32), "×32");
}

}  // namespace
}  // namespace weightloom::cli
