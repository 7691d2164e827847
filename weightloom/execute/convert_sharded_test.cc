#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "weightloom/base/error_testing.h"
#include "weightloom/base/temporary_folder_testing.h"
#include "weightloom/execute/convert.h"
#include "weightloom/execute/convert_testing.h"
#include "weightloom/execute/verify.h"

namespace weightloom::testing {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Key;
using ::testing::Not;

class ConvertShardedTest : public ::testing::Test {
 protected:
  ConvertShardedTest() { write_folder(at("hub"), original_); }

  std::string at(const std::string& name) const { return folder_ / name; }
  Folder files(const std::string& name) const { return read_folder(at(name)).value(); }

  /// Converts SRC to DST; with a mesh, for all ranks or one.
  void convert_to(const std::string& from, const std::string& to, const Selection& selection,
                  std::optional<int64_t> rank = std::nullopt, OutputOptions output = {}) const {
    const Checkpoint source = Checkpoint::open(system_calls(), at(from));
    Conversion conversion =
        plan_conversion(system_calls(), source, selection, Registry::built_in());
    if (conversion.is_refused(false)) throw refusal_of(conversion.findings, false);
    conversion = rank ? for_ranks(std::move(conversion), std::span(&*rank, 1))
                      : for_all_ranks(std::move(conversion));
    convert(system_calls(), source, conversion, false, at(to), output, RunOptions());
  }

  static Selection over(const std::string& mesh, const std::string& placements = "",
                        std::optional<Side> to = std::nullopt) {
    Selection selection;
    selection.to = to;
    selection.meshes = MeshSet::parse(mesh);
    if (!placements.empty()) selection.placements = parse_placements(placements, "p.json");
    return selection;
  }
  static Selection whole(std::optional<Side> to = std::nullopt) {
    Selection selection;
    selection.to = to;
    return selection;
  }

  Folder original_ = hub_files(250);
  TemporaryFolder folder_;
};

// Experts by ep, the rows of each by tp: gate and up each cut in two; the rest by fsdp.
constexpr const char* kExperts = R"([
  {"pattern": "*.experts.gate_up_proj", "placements": [
    {"axis": "ep", "shard": 0}, {"axis": "tp", "strided_shard": {"dim": 1, "split_factor": 2}}]},
  {"pattern": "*.experts.down_proj", "placements": [
    {"axis": "ep", "shard": 0}, {"axis": "tp", "shard": 2}]},
  {"pattern": "*", "placements": [{"axis": "ep", "shard": 0}, {"axis": "tp", "shard": 0}]}])";

TEST_F(ConvertShardedTest, ThroughTheMappingToShardsAndBackGivesIdenticalFiles) {
  convert_to("hub", "parts", over("ep=2,tp=2", kExperts, Side::runtime));
  EXPECT_THAT(list_folder(system_calls(), at("parts")),
              ElementsAre("config.json", "layout.json", "rank-00000-of-00004.safetensors",
                          "rank-00001-of-00004.safetensors", "rank-00002-of-00004.safetensors",
                          "rank-00003-of-00004.safetensors", "tokenizer.json", "weightloom.json"));
  convert_to("parts", "back", whole(Side::hub));
  Folder back = files("back");
  EXPECT_EQ(back.erase("weightloom.json"), 1U);
  EXPECT_EQ(back, original_);
}

TEST_F(ConvertShardedTest, TheSplitIntoFilesIsRemembered) {
  convert_to("hub", "parts", over("fsdp=3"));
  convert_to("parts", "other", over("fsdp=2"));
  convert_to("other", "back", whole());
  Folder back = files("back");
  back.erase("weightloom.json");
  EXPECT_EQ(back, original_);
}

TEST_F(ConvertShardedTest, ReshardingNeedsNoWholeTensorBetween) {
  convert_to("hub", "a", over("ep=2,tp=2", kExperts, Side::runtime));
  convert_to("a", "b", over("fsdp=3"));
  convert_to("hub", "straight", over("fsdp=3", "", Side::runtime));
  for (const char* rank : {"0", "1", "2"}) {
    const std::string name = std::string("rank-0000") + rank + "-of-00003.safetensors";
    EXPECT_EQ(files("b")[name], files("straight")[name]);
  }
  convert_to("b", "back", whole(Side::hub));
  Folder back = files("back");
  back.erase("weightloom.json");
  EXPECT_EQ(back, original_);
}

TEST_F(ConvertShardedTest, OneRankAtATimeGivesTheSameFolder) {
  convert_to("hub", "all", over("fsdp=2", "", Side::runtime));
  convert_to("hub", "apart", over("fsdp=2", "", Side::runtime), 1);
  EXPECT_THAT(files("apart"), Not(Contains(Key("rank-00000-of-00002.safetensors"))));
  OutputOptions add;
  add.overwrite = true;
  convert_to("hub", "apart", over("fsdp=2", "", Side::runtime), 0, add);
  EXPECT_EQ(files("apart"), files("all"));
}

TEST_F(ConvertShardedTest, AWholeCheckpointReplacesAShardedOneWhole) {
  convert_to("hub", "parts", over("fsdp=2"));
  OutputOptions replace;
  replace.overwrite = true;
  convert_to("hub", "parts", whole(), std::nullopt, replace);
  Folder made = files("parts");
  made.erase("weightloom.json");
  EXPECT_EQ(made, original_);
}

TEST_F(ConvertShardedTest, ReplicasThatDifferAreRefused) {
  convert_to("hub", "parts", over("dp=2"));
  const std::string path = at("parts/rank-00001-of-00002.safetensors");
  std::string text = read_whole_file(system_calls(), path);
  text.back() = static_cast<char>(text.back() + 1);
  write_whole_file(system_calls(), path, text);
  const auto refusal = refusal_of([&] { convert_to("parts", "back", whole()); });
  ASSERT_TRUE(refusal);
  EXPECT_EQ(refusal->code(), ErrorCode::checkpoint);
  EXPECT_THAT(refusal->what(), HasSubstr("rank-00001-of-00002.safetensors: tensor '"));
  EXPECT_THAT(refusal->what(), HasSubstr("differs from the one in rank-00000-of-00002"));
  EXPECT_FALSE(status_of(system_calls(), at("back")));
  OutputOptions trust;
  trust.compare_replicas = false;
  convert_to("parts", "back", whole(), std::nullopt, trust);
  EXPECT_EQ(read_tensors(at("back")), read_tensors(at("hub")));
}

TEST_F(ConvertShardedTest, VerifyComparesEachRankWithItsPart) {
  convert_to("hub", "parts", over("ep=2,tp=2", kExperts, Side::runtime));
  const auto differences = [&](const std::string& a, const std::string& b) {
    const VerifyReport report = verify_equal(
        system_calls(), Checkpoint::open(system_calls(), at(a)),
        Checkpoint::open(system_calls(), at(b)), {}, Registry::built_in(), RunOptions());
    return report.differences.size();
  };
  EXPECT_EQ(differences("parts", "hub"), 0U);
  EXPECT_EQ(differences("hub", "parts"), 0U);
  const Checkpoint parts = Checkpoint::open(system_calls(), at("parts"));
  EXPECT_TRUE(verify_readable(system_calls(), parts, RunOptions()).equal);
  const std::string path = at("parts/rank-00003-of-00004.safetensors");
  std::string text = read_whole_file(system_calls(), path);
  text.back() = static_cast<char>(text.back() + 1);
  write_whole_file(system_calls(), path, text);
  EXPECT_EQ(differences("parts", "hub"), 1U);
}

TEST_F(ConvertShardedTest, WhatIsAskedWronglyIsRefused) {
  const auto message = [&](const Selection& selection, std::optional<int64_t> rank = {}) {
    const auto refusal = refusal_of([&] { convert_to("hub", "x", selection, rank); });
    return refusal ? std::string(refusal->what()) : "";
  };
  EXPECT_THAT(message(over("tp=2")), HasSubstr("'tp'"));
  EXPECT_THAT(message(over("fsdp=2"), 2), HasSubstr("there is no rank 2"));
  EXPECT_THAT(message(over("fsdp=2", R"([{"pattern": "x", "placements": []}])")),
              HasSubstr("no rule of the placements matches"));
  EXPECT_THAT(message(over("fsdp=2", R"([{"pattern": "*", "placements": [
                {"axis": "ep", "shard": 0}]}])")),
              HasSubstr("there is no axis 'ep'"));
}

}  // namespace
}  // namespace weightloom::testing
