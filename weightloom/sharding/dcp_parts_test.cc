#include "weightloom/sharding/dcp_parts.h"

#include <gtest/gtest.h>

namespace weightloom {
namespace {

TEST(FormatDcpPartsTest, NamesAreJsonAndOffsetsLists) {
  const Shape two = {0, 128};
  const Shape none = {};
  EXPECT_EQ(format_dcp_parts({}), "{}");
  EXPECT_EQ(format_dcp_parts({{"a.weight", two}, {"b", none}}),
            R"({"a.weight":{"saved_offsets":[0,128]},"b":{"saved_offsets":[]}})");
  EXPECT_EQ(format_dcp_parts({{"say \"hi\"\n\\", none}}),
            R"({"say \"hi\"\n\\":{"saved_offsets":[]}})");
  EXPECT_EQ(format_dcp_parts({{"größe", none}}), R"({"größe":{"saved_offsets":[]}})");
}

}  // namespace
}  // namespace weightloom
