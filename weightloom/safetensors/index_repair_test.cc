#include "weightloom/safetensors/index_repair.h"

#include <cerrno>
#include <map>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "weightloom/base/error_testing.h"
#include "weightloom/base/fault_syscalls_testing.h"
#include "weightloom/base/temporary_folder_testing.h"
#include "weightloom/safetensors/checkpoint.h"
#include "weightloom/safetensors/safetensors_testing.h"

namespace weightloom {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Pair;
using testing::UnorderedElementsAre;

constexpr const char* kIndex = "model.safetensors.index.json";
constexpr const char* kFirst = "model-00001-of-00003.safetensors";
constexpr const char* kSecond = "model-00002-of-00003.safetensors";
constexpr const char* kThird = "model-00003-of-00003.safetensors";

using Map = std::map<std::string, std::string>;  // tensor → file

/// Three shards that hold a (4 bytes), b (2) and c (3), and an index as the test wants it.
class RepairIndex : public testing::Test {
 protected:
  RepairIndex() {
    hold(kFirst, {{"a", 4}});
    hold(kSecond, {{"b", 2}});
    hold(kThird, {{"c", 3}});
  }

  void hold(const std::string& file, const std::map<std::string, int64_t>& tensors) {
    std::vector<TestTensor> list;
    for (const auto& [name, size] : tensors) {
      list.push_back({name, DType::U8, {size}, std::string(static_cast<size_t>(size), 'x')});
    }
    write_safetensors(folder_ / file, list);
  }

  void index(const Map& map, std::optional<int64_t> total = 9, const std::string& name = kIndex) {
    Index index;
    index.weight_map = {map.begin(), map.end()};
    index.total_size = total;
    write_file(folder_ / name, format_index(index));
  }

  IndexRepair repair(IndexRepairOptions options = {}) {
    return repair_index(system_calls(), folder_.path(), options, 2);
  }

  /// What is refused: the codes of all findings, and the words.
  std::vector<std::string> refused(IndexRepairOptions options = {}) {
    const auto error = refusal_of([&] { repair(options); });
    if (!error) return {"nothing"};
    said_ = std::string(error->what()) + "; next: " + error->next_step();
    return codes(error->findings());
  }

  static std::vector<std::string> codes(const std::vector<Finding>& findings) {
    std::vector<std::string> codes;
    for (const Finding& finding : findings) codes.push_back(finding.code + " " + finding.tensor);
    return codes;
  }

  static Map map_of(const IndexRepair& repair) {
    const Index index = parse_index(repair.text, repair.name);
    return {index.weight_map.begin(), index.weight_map.end()};
  }

  TemporaryFolder folder_;
  std::string said_;
  const Map whole_ = {{"a", kFirst}, {"b", kSecond}, {"c", kThird}};
};

TEST_F(RepairIndex, AnIndexThatIsRightStays) {
  index(whole_);
  const IndexRepair done = repair();
  EXPECT_FALSE(done.changes);
  EXPECT_THAT(done.findings, IsEmpty());
}

TEST_F(RepairIndex, SizesAreNotAsked) {
  index(whole_, std::nullopt);
  EXPECT_FALSE(repair().changes);
}

TEST_F(RepairIndex, WithoutAnIndexTheNumberedSetCounts) {
  hold("consolidated.safetensors", {{"tok_embeddings", 5}});
  const IndexRepair done = repair();
  EXPECT_TRUE(done.changes);
  EXPECT_FALSE(done.replaces);
  EXPECT_EQ(done.name, kIndex);
  EXPECT_EQ(map_of(done), whole_);
  EXPECT_EQ(done.total_bytes, 9);
  EXPECT_EQ(parse_index(done.text, "").total_size, 9);
  EXPECT_EQ(parse_index(done.text, "").total_parameters, 9);
  EXPECT_THAT(codes(done.findings), ElementsAre("unused_file "));
}

TEST_F(RepairIndex, EntriesInAnotherShardMove) {
  index({{"a", kFirst}, {"b", kThird}, {"c", kSecond}});
  const IndexRepair done = repair();
  EXPECT_EQ(map_of(done), whole_);
  EXPECT_THAT(codes(done.findings), ElementsAre("moved_entry b", "moved_entry c"));
}

TEST_F(RepairIndex, TensorsThatAreNotListedAreAdded) {
  hold(kFirst, {{"a", 4}, {"extra", 1}});
  index(whole_);
  const IndexRepair done = repair();
  EXPECT_EQ(map_of(done).at("extra"), kFirst);
  EXPECT_EQ(done.total_bytes, 10);
  EXPECT_THAT(codes(done.findings), ElementsAre("added_entry extra", "wrong_total_size "));
}

TEST_F(RepairIndex, AWrongTotalSizeIsMended) {
  index(whole_, 1);
  const IndexRepair done = repair();
  EXPECT_TRUE(done.changes);
  ASSERT_THAT(codes(done.findings), ElementsAre("wrong_total_size "));
  EXPECT_EQ(done.findings[0].message,
            "model.safetensors.index.json: total_size was 1, but the tensors hold 9 bytes");
}

TEST_F(RepairIndex, AShardOfTheSetThatTheIndexForgotCounts) {
  index({{"a", kFirst}, {"b", kSecond}}, 6);
  EXPECT_EQ(map_of(repair()), whole_);
}

TEST_F(RepairIndex, ATensorThatNoFileHoldsIsNotLostUnlessToldSo) {
  Map map = whole_;
  map["mtp.fc.weight"] = kSecond;
  index(map);
  EXPECT_THAT(refused(), ElementsAre("index_entry_without_tensor mtp.fc.weight"));
  EXPECT_THAT(said_, HasSubstr(std::string("places it in ") + kSecond));
  EXPECT_THAT(said_, HasSubstr("--drop-missing"));
  const IndexRepair done = repair({.drop_missing = true});
  EXPECT_EQ(map_of(done), whole_);
  EXPECT_THAT(codes(done.findings), ElementsAre("dropped_entry mtp.fc.weight"));
}

TEST_F(RepairIndex, AMissingShardIsRefusedEvenWhenNamesMayBeDropped) {
  remove_all(system_calls(), folder_ / kSecond);
  index(whole_);
  EXPECT_THAT(refused({.drop_missing = true}), ElementsAre("shard_gap "));
  EXPECT_THAT(said_, HasSubstr(kSecond));
  // Not numbered, so that only the index tells of it.
  index({{"a", kFirst}, {"z", "other.safetensors"}});
  EXPECT_THAT(refused({.drop_missing = true}), ElementsAre("missing_shard "));
  EXPECT_THAT(said_, HasSubstr("other.safetensors: model.safetensors.index.json names it for 1"));
}

TEST_F(RepairIndex, WithoutAnIndexAGapIsRefused) {
  remove_all(system_calls(), folder_ / kSecond);
  EXPECT_THAT(refused(), ElementsAre("shard_gap "));
}

TEST_F(RepairIndex, ANameInTwoFilesIsRefusedWithBoth) {
  hold(kThird, {{"a", 4}, {"c", 3}});
  EXPECT_THAT(refused(), ElementsAre("duplicate_tensor a"));
  EXPECT_THAT(said_, HasSubstr(std::string("it stands in ") + kFirst + " and in " + kThird));
  EXPECT_THAT(said_, HasSubstr("remove the file that is stale"));
}

TEST_F(RepairIndex, OfTwoCopiesTheOneThatTheIndexNamesCounts) {
  hold(kThird, {{"a", 7}, {"c", 3}});
  index({{"a", kThird}, {"b", kSecond}}, 1);
  const IndexRepair done = repair();
  EXPECT_EQ(map_of(done), (Map{{"a", kThird}, {"b", kSecond}, {"c", kThird}}));
  EXPECT_EQ(done.total_bytes, 12);
  EXPECT_THAT(codes(done.findings),
              UnorderedElementsAre("unindexed_tensor a", "added_entry c", "wrong_total_size "));
}

TEST_F(RepairIndex, AnIndexOfFilesThatAreGoneLosesNoName) {
  index({{"a", "old-1.safetensors"}, {"b", "old-2.safetensors"}, {"c", "old-2.safetensors"}});
  const IndexRepair done = repair();
  EXPECT_EQ(map_of(done), whole_);
  EXPECT_THAT(codes(done.findings), ElementsAre("moved_entry a", "moved_entry b", "moved_entry c"));
  index({{"a", "old-1.safetensors"}, {"lost", "old-2.safetensors"}});
  EXPECT_THAT(refused(), ElementsAre("index_entry_without_tensor lost"));
}

TEST_F(RepairIndex, OddNamesAndSubfoldersStayWhatTheIndexSays) {
  TemporaryFolder odd;
  make_folder(system_calls(), odd / "weights");
  write_safetensors(odd / "weights/one.safetensors", {{"a", DType::U8, {1}, "x"}});
  write_safetensors(odd / "extra.safetensors", {{"b", DType::U8, {2}, "xy"}});
  write_file(odd / "quant.safetensors.index.json",
             R"({"weight_map": {"a": "weights/one.safetensors", "z": "extra.safetensors"}})");
  const IndexRepair done =
      repair_index(system_calls(), odd.path() + "/", {.drop_missing = true}, 1);
  EXPECT_EQ(done.name, "quant.safetensors.index.json");
  EXPECT_EQ(map_of(done), (Map{{"a", "weights/one.safetensors"}, {"b", "extra.safetensors"}}));
}

TEST_F(RepairIndex, ABrokenIndexCountsAsNoneAndIsTold) {
  write_file(folder_ / kIndex, R"({"weight_map": {"a": "model-00001)");
  const IndexRepair done = repair();
  EXPECT_TRUE(done.replaces);
  EXPECT_EQ(map_of(done), whole_);
  EXPECT_THAT(codes(done.findings), ElementsAre("malformed_index "));
}

TEST_F(RepairIndex, WhatElseTheIndexSaysIsKept) {
  write_file(folder_ / kIndex, R"({"metadata": {"format": "pt", "total_size": 1},
      "note": [1], "weight_map": {"a": ")" +
                                   std::string(kFirst) + R"("}})");
  EXPECT_EQ(repair().text, R"({
  "metadata": {
    "format": "pt",
    "total_size": 9
  },
  "note": [
    1
  ],
  "weight_map": {
    "a": "model-00001-of-00003.safetensors",
    "b": "model-00002-of-00003.safetensors",
    "c": "model-00003-of-00003.safetensors"
  }
}
)");
}

TEST_F(RepairIndex, EveryFaultIsListedAtOnce) {
  hold(kThird, {{"a", 4}, {"c", 3}});
  write_file(folder_ / kSecond, "short");
  index({{"b", kSecond}, {"lost", kFirst}});
  EXPECT_THAT(refused(), UnorderedElementsAre("malformed_header ", "duplicate_tensor a",
                                              "index_entry_without_tensor lost"));
}

TEST_F(RepairIndex, OneWholeFileNeedsNoIndex) {
  TemporaryFolder one;
  write_safetensors(one / "model.safetensors", {{"a", DType::U8, {1}, "x"}});
  write_file(one / kIndex, R"({"weight_map": {"a": "gone.safetensors"}})");
  const auto error = refusal_of([&] { repair_index(system_calls(), one.path(), {}, 1); });
  ASSERT_TRUE(error);
  EXPECT_THAT(error->what(), HasSubstr("one file, model.safetensors, which needs no index"));
  EXPECT_EQ(error->next_step(), "remove model.safetensors.index.json, whose files are not there");
}

TEST_F(RepairIndex, WhatIsNoFolderOfWeightsIsRefused) {
  EXPECT_EQ(refusal_of([&] { repair_index(system_calls(), folder_ / kFirst, {}); })->code(),
            ErrorCode::usage);
  EXPECT_EQ(refusal_of([&] { repair_index(system_calls(), folder_ / "absent", {}); })->code(),
            ErrorCode::not_found);
  TemporaryFolder empty;
  EXPECT_EQ(refusal_of([&] { repair_index(system_calls(), empty.path(), {}); })->code(),
            ErrorCode::not_found);
}

class WriteIndex : public RepairIndex {
 protected:
  std::string text(const std::string& name) {
    return read_whole_file(system_calls(), folder_ / name);
  }
};

TEST_F(WriteIndex, TheOldOneIsKeptBesideTheNew) {
  index({{"a", kFirst}});
  const std::string old = text(kIndex);
  const IndexRepair done = repair();
  EXPECT_EQ(write_index(system_calls(), done), "model.safetensors.index.json.bak");
  EXPECT_EQ(text(kIndex), done.text);
  EXPECT_EQ(text("model.safetensors.index.json.bak"), old);
  EXPECT_FALSE(repair().changes);
  EXPECT_EQ(Checkpoint::open(system_calls(), folder_.path()).tensors().size(), 3U);
}

TEST_F(WriteIndex, WithoutAnOldOneThereIsNoBackup) {
  EXPECT_EQ(write_index(system_calls(), repair()), "");
  EXPECT_EQ(Checkpoint::open(system_calls(), folder_.path()).tensors().size(), 3U);
}

TEST_F(WriteIndex, AnOlderBackupIsNotReplaced) {
  index({{"a", kFirst}});
  write_file(folder_ / "model.safetensors.index.json.bak", "older");
  const std::string old = text(kIndex);
  const auto error = refusal_of([&] { write_index(system_calls(), repair()); });
  ASSERT_TRUE(error);
  EXPECT_EQ(error->code(), ErrorCode::exists);
  EXPECT_EQ(text(kIndex), old);
  EXPECT_EQ(text("model.safetensors.index.json.bak"), "older");
  EXPECT_FALSE(status_of(system_calls(), folder_ / "model.safetensors.index.json.weightloom-new"));
}

TEST_F(WriteIndex, AtEveryFailedCallTheIndexIsTheOldOneOrTheNewOne) {
  index({{"a", kFirst}});
  const std::string old = text(kIndex);
  const IndexRepair done = repair();
  for (int64_t number = 0;; ++number) {
    ASSERT_LT(number, 100);
    remove_all(system_calls(), folder_ / "model.safetensors.index.json.bak");
    write_file(folder_ / kIndex, old);
    FaultSyscalls calls;
    calls.fail_call(number, EIO);
    const bool failed = refusal_of([&] { write_index(calls, done); }).has_value();
    if (calls.calls() <= number) break;
    EXPECT_THAT(text(kIndex), testing::AnyOf(old, done.text)) << "call " << number;
    if (!failed) {
      EXPECT_EQ(text(kIndex), done.text) << "call " << number;
    }
  }
}

TEST_F(WriteIndex, AfterAPowerCutAtAnyCallTheIndexIsWhole) {
  index({{"a", kFirst}});
  const std::string old = text(kIndex);
  const IndexRepair done = repair();
  for (int64_t number = 0;; ++number) {
    ASSERT_LT(number, 100);
    remove_all(system_calls(), folder_ / "model.safetensors.index.json.bak");
    write_file(folder_ / kIndex, old);
    FaultSyscalls calls;
    calls.crash_at(number);
    const bool failed = refusal_of([&] { write_index(calls, done); }).has_value();
    const bool crashed = calls.crashed();
    calls.lose_unsynced_data();
    EXPECT_THAT(text(kIndex), testing::AnyOf(old, done.text)) << "call " << number;
    if (!crashed) {
      EXPECT_FALSE(failed);
      EXPECT_EQ(text(kIndex), done.text);
      break;
    }
  }
}

}  // namespace
}  // namespace weightloom
