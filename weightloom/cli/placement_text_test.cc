#include "weightloom/cli/placement_text.h"

#include <gtest/gtest.h>

#include "weightloom/sharding/placements.h"

namespace weightloom::cli {
namespace {

std::string text_of(const std::string& placements) {
  const std::string file = R"([{"pattern": "*", "placements": )" + placements + "}]";
  return placement_text(parse_placements(file, "p.json").front().sharding);
}

TEST(PlacementText, NamesAxesAndDimsInCarvingOrder) {
  EXPECT_EQ(text_of(R"([{"axis": "tp", "shard": 1}, {"axis": "fsdp", "shard": 0}])"),
            "tp:1 fsdp:0");
  EXPECT_EQ(text_of("[]"), "whole");
}

TEST(PlacementText, SaysWhatIsNotAPlainChunk) {
  EXPECT_EQ(text_of(R"([{"axis": "ep", "shard": 0, "rule": "round_robin"}])"), "ep:0 round_robin");
  EXPECT_EQ(text_of(R"([{"axis": "tp", "strided_shard": {"dim": 1, "split_factor": 2}}])"),
            "tp:1 of 2 groups");
  EXPECT_EQ(text_of(R"([{"axis": "tp", "shard": 0, "groups": [6, 2, 2]}])"), "tp:0 of 6|2|2");
  EXPECT_EQ(text_of(R"([{"axis": "tp", "shard": 0, "copies": 2}])"), "tp:0 held 2 times");
  EXPECT_EQ(text_of(R"([{"pad": {"dim": 0, "multiple": 128}}])"), "pad 0 to ×128");
  EXPECT_EQ(text_of(R"([{"axis": "pp", "stage": [0, 1]}])"), "pp at 0,1");
}

}  // namespace
}  // namespace weightloom::cli
