#include "weightloom/cli/plan_page.h"

#include <numeric>
#include <regex>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "weightloom/base/temporary_folder_testing.h"
#include "weightloom/cli/html_text.h"
#include "weightloom/cli/rank_plans.h"
#include "weightloom/plan/tiny_checkpoint_testing.h"

namespace weightloom::cli {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::UnorderedElementsAre;

/// A plan of a checkpoint of these tensors, drawn.
struct DrawnPlan {
  PlanReport report;
  PlanPicture picture;
  std::string page;
};

DrawnPlan drawn(const std::vector<TensorSpec>& specs, const std::string& mesh,
                const std::string& placements, const std::string& dequantized_by = "") {
  const TemporaryFolder folder;
  testing::Folder files = testing::checkpoint_files(specs, 90);
  if (!dequantized_by.empty()) files["config.json"] = dequantized_by;
  testing::write_folder(folder / "hub", files);
  const Syscalls& calls = testing::quick_calls();
  const Checkpoint source = Checkpoint::open(calls, folder / "hub");
  Selection selection;
  selection.meshes = MeshSet::parse(mesh);
  selection.placements = parse_placements(placements, "p.json");
  selection.dequantize = !dequantized_by.empty();
  DrawnPlan plan{make_plan(calls, source, selection, RunOptions()), {}, ""};
  RankPlans ranks(calls, source, plan.report, RunOptions());
  PlanPainter painter(ranks.whole(), &ranks.spread());
  std::vector<int64_t> all(static_cast<size_t>(ranks.world_size()));
  std::iota(all.begin(), all.end(), int64_t{0});
  ranks.for_each(all, [&](const RankPlan& rank) {
    plan.report.ranks.push_back(rank.summary());
    painter.add(rank.rank, rank.program, rank.wholes, rank.cost);
  });
  plan.report.cost = ranks.together();
  plan.picture = std::move(painter).finish();
  plan.page = plan_page(plan.report, plan.picture);
  return plan;
}

constexpr const char* kRows = R"([{"pattern": "*", "placements": [{"axis": "fsdp", "shard": 0}]}])";

size_t count_of(const std::string& text, const std::string& part) {
  size_t count = 0;
  for (size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++count;
  return count;
}

/// What a drawing's rectangles fill of it, in hundredths of hundredths.
double area_of(const std::string& drawing) {
  static const std::regex kRectangle("width=\"([0-9.]+)%\" height=\"([0-9.]+)%\"");
  double area = 0;
  for (std::sregex_iterator it(drawing.begin(), drawing.end(), kRectangle), end; it != end; ++it) {
    area += std::stod((*it)[1]) * std::stod((*it)[2]) / 10000;
  }
  return area;
}

std::vector<std::string> drawings_of(const std::string& page, const std::string& kind) {
  std::vector<std::string> drawings;
  const std::string begin = "<svg class=\"" + kind + "\"";
  for (size_t at = page.find(begin); at != std::string::npos; at = page.find(begin, at + 1)) {
    drawings.push_back(page.substr(at, page.find("</svg>", at) - at));
  }
  return drawings;
}

TEST(PlanPage, EachKeyHasOneBarAndItsStretchesFillIt) {
  const DrawnPlan plan =
      drawn({{"a", DType::BF16, {5, 4}}, {"b", DType::F32, {3}}}, "fsdp=2", kRows);
  const std::vector<std::string> keys = drawings_of(plan.page, "key");
  ASSERT_EQ(keys.size(), 2U);
  for (const std::string& key : keys) EXPECT_NEAR(area_of(key), 1, 1e-4) << key;
  // Five rows over two ranks: three and two.
  EXPECT_THAT(keys[0], HasSubstr("class=\"r0\" x=\"0%\" y=\"0%\" width=\"60%\" height=\"100%\""));
  EXPECT_THAT(keys[0], HasSubstr("class=\"r1\" x=\"60%\" y=\"0%\" width=\"40%\" height=\"100%\""));
  EXPECT_THAT(keys[0], HasSubstr("rank 1: a[3:5, :]"));
}

TEST(PlanPage, WhatIsDecodedIsDrawnAsItsValuesAndReadsTheFilesOfItsParts) {
  const DrawnPlan plan =
      drawn({{"w.weight", DType::F8_E4M3, {8, 12}}, {"w.weight_scale_inv", DType::F32, {2, 1}}},
            "fsdp=2", kRows, R"({"model_type": "x", "quantization_config": {"quant_method": "fp8",
                                                           "weight_block_size": [4, 16]}})");
  ASSERT_EQ(plan.picture.patterns.size(), 1U);
  const TensorPattern& pattern = plan.picture.patterns[0];
  ASSERT_EQ(pattern.sources.size(), 2U);
  EXPECT_EQ(pattern.sources[1].text(), "w.weight_scale_inv");
  ASSERT_EQ(pattern.keys.size(), 1U);
  EXPECT_EQ(pattern.keys[0].files.size(), 2U);
  EXPECT_EQ(pattern.keys[0].computed, "decoded from w.weight, w.weight_scale_inv");
  EXPECT_THAT(plan.page, HasSubstr("decoded from w.weight, w.weight_scale_inv"));
  EXPECT_EQ(pattern.bytes_needed, 96 + 8);
  // Each rank takes four rows of codes and their one scale.
  std::vector<int64_t> bytes;
  for (const FilePicture& file : plan.picture.files) {
    for (const FileRun& run : file.runs) EXPECT_EQ(run.pattern, 0);
    bytes.insert(bytes.end(), file.rank_bytes.begin(), file.rank_bytes.end());
  }
  EXPECT_THAT(bytes, UnorderedElementsAre(48, 48, 4, 4));
}

TEST(PlanPage, ACutOfTheLastDimIsABandAndPaddingIsHatched) {
  const DrawnPlan plan = drawn({{"a", DType::BF16, {4, 6}}}, "tp=2",
                               R"([{"pattern": "*", "placements": [
    {"pad": {"dim": 1, "multiple": 8}}, {"axis": "tp", "shard": 1}]}])");
  const std::vector<std::string> keys = drawings_of(plan.page, "key");
  ASSERT_EQ(keys.size(), 1U);
  EXPECT_THAT(keys[0],
              HasSubstr("class=\"r0\" x=\"0%\" y=\"0%\" width=\"100%\" height=\"66.667%\""));
  const std::vector<std::string> pieces = drawings_of(plan.page, "piece");
  ASSERT_EQ(pieces.size(), 2U);
  EXPECT_THAT(pieces[0], Not(HasSubstr("class=\"pad\"")));
  EXPECT_THAT(pieces[1], HasSubstr("class=\"pad\" x=\"0%\" y=\"50%\" width=\"100%\""));
  EXPECT_EQ(plan.picture.patterns[0].pieces[1].pad_bytes, 16);  // two columns of four rows
}

TEST(PlanPage, LayersThatGoTheSameWayAreDrawnOnce) {
  std::vector<TensorSpec> specs;
  for (int layer = 0; layer < 40; ++layer) {
    specs.push_back({"layers." + std::to_string(layer) + ".w", DType::U8, {4, 3}});
  }
  const DrawnPlan plan = drawn(specs, "fsdp=2", kRows);
  EXPECT_EQ(drawings_of(plan.page, "key").size(), 1U);
  EXPECT_THAT(plan.page, HasSubstr("layers.{0..39}.w"));
  EXPECT_EQ(plan.picture.patterns[0].bytes, 40 * 12);
}

TEST(PlanPage, ReplicasAreOnePiece) {
  const DrawnPlan plan = drawn({{"a", DType::U8, {4}}}, "dp=2,fsdp=2", kRows);
  const auto& pieces = plan.picture.patterns[0].pieces;
  ASSERT_EQ(pieces.size(), 2U);
  EXPECT_THAT(pieces[0].ranks, ::testing::ElementsAre(0, 2));
  EXPECT_THAT(pieces[1].ranks, ::testing::ElementsAre(1, 3));
}

TEST(PlanPage, NamesCannotBreakOutOfTheirPlace) {
  const DrawnPlan plan =
      drawn({{"<script>alert('x')</script>&\"w\"", DType::U8, {2}}}, "fsdp=2", kRows);
  EXPECT_EQ(count_of(plan.page, "<script>"), 1U);  // the page's own
  EXPECT_THAT(plan.page, HasSubstr("&lt;script&gt;alert(&#39;x&#39;)&lt;/script&gt;&amp;"));
}

TEST(PlanPage, NothingComesFromElsewhere) {
  const DrawnPlan plan = drawn({{"a", DType::U8, {2}}}, "fsdp=2", kRows);
  EXPECT_THAT(plan.page, Not(HasSubstr("http")));
  EXPECT_THAT(plan.page, Not(HasSubstr("src=")));
  EXPECT_THAT(plan.page, Not(HasSubstr("@import")));
}

TEST(PlanPage, NumbersAreThoseOfThePlan) {
  const DrawnPlan plan = drawn({{"a", DType::F32, {7, 3}}, {"b", DType::U8, {5}}}, "fsdp=2", kRows);
  EXPECT_THAT(plan.page, HasSubstr("<dt>needed</dt><dd>89 B</dd>"));  // 84 + 5
  EXPECT_THAT(plan.page, HasSubstr("<dt>read</dt><dd>89 B (×1.00)</dd>"));
  // Rank 0 holds four rows of twelve bytes and three bytes; of the files all is needed.
  EXPECT_THAT(plan.page, HasSubstr("<tr><td>0</td><td>2</td><td>51 B</td><td>51 B</td>"));
  int64_t of_files = 0;
  for (const FilePicture& file : plan.picture.files) {
    of_files = std::accumulate(file.rank_bytes.begin(), file.rank_bytes.end(), of_files);
  }
  EXPECT_EQ(of_files, 89);
}

TEST(Html, PercentHasNoMoreDigitsThanItNeeds) {
  EXPECT_EQ(percent(0), "0%");
  EXPECT_EQ(percent(1), "100%");
  EXPECT_EQ(percent(0.125), "12.5%");
  EXPECT_EQ(percent(1.0 / 3), "33.333%");
}

}  // namespace
}  // namespace weightloom::cli
