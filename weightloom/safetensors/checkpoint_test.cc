#include "weightloom/safetensors/checkpoint.h"

#include <cerrno>
#include <map>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include "weightloom/base/error_testing.h"
#include "weightloom/base/fault_syscalls_testing.h"
#include "weightloom/base/temporary_folder_testing.h"
#include "weightloom/safetensors/safetensors_testing.h"

namespace weightloom {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

const std::string kS1 = "model-00001-of-00003.safetensors";
const std::string kS2 = "model-00002-of-00003.safetensors";
const std::string kS3 = "model-00003-of-00003.safetensors";
const std::string kIndexName = "model.safetensors.index.json";

/// One F32 tensor of so many elements.
TestTensor floats(std::string name, int64_t count) {
  return {std::move(name), DType::F32, {count}, std::string(static_cast<size_t>(4 * count), 'x')};
}

class CheckpointOpen : public testing::Test {
 protected:
  void write(std::string_view file, const std::vector<TestTensor>& tensors) const {
    write_safetensors(folder_ / file, tensors);
  }
  /// Entries as tensor → shard; `metadata` is JSON.
  void write_index(const std::map<std::string, std::string>& entries,
                   std::string_view metadata = "{}", std::string_view name = kIndexName) const {
    std::vector<std::string> texts;
    for (const auto& [tensor, shard] : entries) {
      texts.push_back(fmt::format(R"("{}":"{}")", tensor, shard));
    }
    write_file(folder_ / name, fmt::format(R"({{"metadata":{},"weight_map":{{{}}}}})", metadata,
                                           fmt::join(texts, ",")));
  }
  void write_three_shards() const {
    write(kS1, {floats("a", 4)});
    write(kS2, {floats("b", 3)});
    write(kS3, {floats("c", 2)});
  }
  Checkpoint open(std::string_view name = "", int threads = 2) const {
    return Checkpoint::open(system_calls(), name.empty() ? folder_.path() : folder_ / name,
                            threads);
  }
  Error refusal(std::string_view name = "") const {
    auto error = refusal_of([&] { open(name); });
    return error ? *error : Error(ErrorCode::usage, "it was accepted");
  }

  TemporaryFolder folder_;
};

/// "tensor@file" of each tensor.
std::vector<std::string> places(const Checkpoint& checkpoint) {
  std::vector<std::string> result;
  for (const auto& tensor : checkpoint.tensors()) {
    result.push_back(tensor.name + "@" + checkpoint.files()[static_cast<size_t>(tensor.file)].name);
  }
  return result;
}

/// "code tensor file" of each finding.
std::vector<std::string> facts(std::span<const Finding> findings) {
  std::vector<std::string> result;
  for (const auto& finding : findings) {
    result.push_back(fmt::format("{} {} {}", finding.code, finding.tensor, finding.file));
  }
  return result;
}

TEST_F(CheckpointOpen, ReadsOneFileAlone) {
  write("x.safetensors", {floats("b", 1), floats("a", 2)});
  write("y.safetensors", {floats("a", 7)});
  auto checkpoint = open("x.safetensors");
  EXPECT_TRUE(checkpoint.is_single_file());
  EXPECT_EQ(checkpoint.path(), folder_ / "x.safetensors");
  EXPECT_EQ(checkpoint.folder(), folder_.path());
  EXPECT_THAT(places(checkpoint), ElementsAre("a@x.safetensors", "b@x.safetensors"));
  EXPECT_THAT(checkpoint.findings(), IsEmpty());
  EXPECT_EQ(checkpoint.data_bytes(), 12);
  const StoredTensor* a = checkpoint.find("a");
  ASSERT_NE(a, nullptr);
  EXPECT_EQ(a->offset_bytes, checkpoint.files()[0].header.data_begin_bytes() + 4);
  EXPECT_EQ(a->size_bytes, 8);
  EXPECT_EQ(checkpoint.find("c"), nullptr);
}

TEST_F(CheckpointOpen, FindsNamesInCopiesAndMovedValues) {
  write("x.safetensors", {floats("b", 1), floats("a", 2)});
  auto first = open();
  Checkpoint copy = first;
  Checkpoint moved = std::move(first);
  EXPECT_EQ(copy.find("b"), &copy.tensors()[1]);
  EXPECT_EQ(moved.find("a"), &moved.tensors()[0]);
}

TEST_F(CheckpointOpen, AcceptsNoTensors) {
  write("model.safetensors", {});
  EXPECT_THAT(open().tensors(), IsEmpty());
  write_index({});
  EXPECT_THAT(open().files(), IsEmpty());
}

TEST_F(CheckpointOpen, ReadsAnIndexedFolder) {
  write_three_shards();
  write_index({{"a", kS1}, {"b", kS2}, {"c", kS3}});
  for (int threads : {1, 2, 7}) {
    auto checkpoint = open("", threads);
    EXPECT_FALSE(checkpoint.is_single_file());
    EXPECT_THAT(places(checkpoint), ElementsAre("a@" + kS1, "b@" + kS2, "c@" + kS3));
    EXPECT_THAT(checkpoint.findings(), IsEmpty());
    EXPECT_EQ(checkpoint.data_bytes(), 36);
    EXPECT_EQ(checkpoint.find("b")->size_bytes, 12);
    ASSERT_TRUE(checkpoint.index());
    EXPECT_EQ(checkpoint.index()->first, kIndexName);
  }
}

TEST_F(CheckpointOpen, TakesAnIndexPathAndATrailingSlash) {
  write("quant_model_weights-1.safetensors", {floats("a", 1), floats("b", 1)});
  write("extra.safetensors", {floats("c", 1)});
  write_index({{"a", "quant_model_weights-1.safetensors"},
               {"b", "quant_model_weights-1.safetensors"},
               {"c", "extra.safetensors"}},
              "{}", "quant.safetensors.index.json");
  auto checkpoint = open("quant.safetensors.index.json");
  EXPECT_EQ(checkpoint.folder(), folder_.path());
  EXPECT_EQ(checkpoint.tensors().size(), 3u);
  auto by_folder = Checkpoint::open(system_calls(), folder_.path() + "//");
  EXPECT_EQ(by_folder.path(), folder_.path());
  EXPECT_EQ(by_folder.tensors().size(), 3u);
}

TEST_F(CheckpointOpen, NamesAMissingShardAndItsTensors) {
  write(kS1, {floats("a", 4)});
  write(kS3, {floats("c", 2)});
  write_index({{"a", kS1}, {"b", kS2}, {"c", kS3}});
  auto error = refusal();
  EXPECT_EQ(error.code(), ErrorCode::checkpoint);
  EXPECT_EQ(error.what(), folder_.path() + ": " + kS2 +
                              ": the index places 1 tensor there ('b'), but there is no such file");
  EXPECT_THAT(facts(error.findings()), ElementsAre("missing_shard  " + kS2));
  EXPECT_THAT(error.next_step(), HasSubstr("fetch"));
}

TEST_F(CheckpointOpen, NamesFewOfTheManyTensorsOfAMissingShard) {
  write_index({{"a", "x"}, {"b", "x"}, {"c", "x"}, {"d", "x"}, {"e", "x"}});
  EXPECT_THAT(refusal().what(), HasSubstr("5 tensors there ('a', 'b', 'c', …)"));
}

TEST_F(CheckpointOpen, NamesAnIndexEntryWithoutATensor) {
  write_three_shards();
  write_index({{"a", kS1}, {"b", kS2}, {"mtp.fc.weight", kS2}, {"c", kS3}});
  auto error = refusal();
  EXPECT_EQ(error.code(), ErrorCode::checkpoint);
  EXPECT_THAT(error.what(), AllOf(HasSubstr(kS2), HasSubstr("mtp.fc.weight")));
  EXPECT_THAT(facts(error.findings()),
              ElementsAre("index_entry_without_tensor mtp.fc.weight " + kS2));
}

TEST_F(CheckpointOpen, NamesTensorsInTheWrongShard) {
  write_three_shards();
  write_index({{"a", kS1}, {"b", kS3}, {"c", kS2}});
  auto error = refusal();
  EXPECT_EQ(error.code(), ErrorCode::checkpoint);
  EXPECT_THAT(facts(error.findings()), ElementsAre("wrong_shard b " + kS3, "wrong_shard c " + kS2));
  EXPECT_EQ(error.findings()[0].message,
            "tensor 'b': the index places it in " + kS3 + ", but it stands in " + kS2);
}

TEST_F(CheckpointOpen, ListsAllFaultsAtOnce) {
  write(kS1, {floats("a", 4)});
  write_file(folder_ / kS3, "short");
  write_index({{"a", kS1}, {"ghost", kS1}, {"b", kS2}, {"c", kS3}});
  auto error = refusal();
  EXPECT_EQ(error.code(), ErrorCode::checkpoint);
  EXPECT_THAT(facts(error.findings()),
              ElementsAre("missing_shard  " + kS2, "malformed_header  " + kS3,
                          "index_entry_without_tensor ghost " + kS1));
  EXPECT_THAT(error.what(), HasSubstr("(and 2 more)"));
}

TEST_F(CheckpointOpen, LetsTheIndexDecideBetweenDuplicates) {
  write(kS1, {floats("a", 7), floats("b", 3)});
  write(kS2, {floats("a", 4)});
  write_index({{"a", kS2}, {"b", kS1}});
  auto checkpoint = open();
  EXPECT_THAT(places(checkpoint), ElementsAre("a@" + kS2, "b@" + kS1));
  EXPECT_EQ(checkpoint.find("a")->size_bytes, 16);
  EXPECT_THAT(facts(checkpoint.findings()), ElementsAre("unindexed_tensor a " + kS1));
}

TEST_F(CheckpointOpen, ReportsTensorsThatTheIndexDoesNotList) {
  write(kS1, {floats("a", 4), floats("stale.extra", 4)});
  write_index({{"a", kS1}});
  auto checkpoint = open();
  EXPECT_THAT(places(checkpoint), ElementsAre("a@" + kS1));
  EXPECT_EQ(checkpoint.data_bytes(), 16);
  EXPECT_THAT(facts(checkpoint.findings()), ElementsAre("unindexed_tensor stale.extra " + kS1));
  EXPECT_EQ(checkpoint.findings()[0].severity, Severity::report);
}

TEST_F(CheckpointOpen, ReportsFilesThatAreNotPartOfTheIndex) {
  write_three_shards();
  write("model-00001-of-00002.safetensors", {floats("a", 1)});
  write("consolidated.safetensors", {floats("t", 1)});
  write_index({{"a", kS1}, {"b", kS2}, {"c", kS3}});
  write_index({}, "{}", "other.safetensors.index.json");
  EXPECT_THAT(facts(open().findings()), ElementsAre("unused_file  consolidated.safetensors",
                                                    "unused_file  model-00001-of-00002.safetensors",
                                                    "unused_file  other.safetensors.index.json"));
}

TEST_F(CheckpointOpen, ReportsAWrongTotalSize) {
  write(kS1, {floats("a", 9)});
  write_index({{"a", kS1}}, R"({"total_size":36})");
  EXPECT_THAT(open().findings(), IsEmpty());
  write_index({{"a", kS1}}, R"({"total_size":1})");
  auto checkpoint = open();
  EXPECT_THAT(facts(checkpoint.findings()), ElementsAre("wrong_total_size  " + kIndexName));
  EXPECT_EQ(checkpoint.findings()[0].message,
            kIndexName + ": total_size is 1, but the tensors hold 36 bytes");
}

TEST_F(CheckpointOpen, FollowsShardsIntoSubfolders) {
  make_folder(system_calls(), folder_ / "weights");
  write("weights/" + kS1, {floats("a", 4)});
  write_index({{"a", "weights/" + kS1}});
  EXPECT_THAT(places(open()), ElementsAre("a@weights/" + kS1));
}

TEST_F(CheckpointOpen, FollowsLinksOutOfTheFolder) {
  make_folder(system_calls(), folder_ / "blobs");
  make_folder(system_calls(), folder_ / "snapshot");
  write("blobs/0123", {floats("a", 4)});
  ASSERT_EQ(::symlink("../blobs/0123", (folder_ / "snapshot/model.safetensors").c_str()), 0);
  EXPECT_THAT(places(open("snapshot")), ElementsAre("a@model.safetensors"));
  EXPECT_THAT(places(open("blobs/0123")), ElementsAre("a@0123"));
}

TEST_F(CheckpointOpen, NamesLinkAndTargetWhenALinkDangles) {
  ASSERT_EQ(::symlink("../blobs/gone", (folder_ / kS1).c_str()), 0);
  write_index({{"a", kS1}});
  EXPECT_THAT(refusal().what(),
              AllOf(HasSubstr(kS1), HasSubstr("a link to '../blobs/gone', which does not exist")));
  auto single = refusal(kS1);
  EXPECT_EQ(single.code(), ErrorCode::not_found);
  EXPECT_THAT(single.what(), HasSubstr("a link to '../blobs/gone', which does not exist"));
}

TEST_F(CheckpointOpen, PrefersTheWholeFileToANumberedSet) {
  write("model.safetensors", {floats("w", 1)});
  write(kS1, {floats("a", 4)});
  auto checkpoint = open();
  EXPECT_THAT(places(checkpoint), ElementsAre("w@model.safetensors"));
  EXPECT_THAT(facts(checkpoint.findings()), ElementsAre("unused_file  " + kS1));
}

TEST_F(CheckpointOpen, ReadsACompleteNumberedSetWithoutIndex) {
  write_three_shards();
  write("other.safetensors", {floats("o", 1)});
  auto checkpoint = open();
  EXPECT_THAT(places(checkpoint), ElementsAre("a@" + kS1, "b@" + kS2, "c@" + kS3));
  EXPECT_THAT(facts(checkpoint.findings()), ElementsAre("unused_file  other.safetensors"));
}

TEST_F(CheckpointOpen, AcceptsNumbersThatCountFromZero) {
  write("m-00000-of-00002.safetensors", {floats("a", 1)});
  write("m-00001-of-00002.safetensors", {floats("b", 1)});
  EXPECT_EQ(open().tensors().size(), 2u);
}

TEST_F(CheckpointOpen, RefusesANumberedSetWithAGap) {
  write(kS1, {floats("a", 4)});
  write(kS3, {floats("c", 2)});
  auto error = refusal();
  EXPECT_EQ(error.code(), ErrorCode::checkpoint);
  EXPECT_EQ(error.what(), folder_.path() + ": " + kS2 +
                              " is missing: the names say that there are 3 shards, 2 are there");
  EXPECT_THAT(facts(error.findings()), ElementsAre("shard_gap  " + kS2));
}

TEST_F(CheckpointOpen, RefusesANumberPastTheCount) {
  write("m-00001-of-00001.safetensors", {floats("a", 4)});
  write("m-00002-of-00001.safetensors", {floats("b", 4)});
  EXPECT_THAT(facts(refusal().findings()), ElementsAre("shard_gap  m-00002-of-00001.safetensors"));
}

TEST_F(CheckpointOpen, RefusesTwoNumberedSets) {
  write_three_shards();
  write("model-00001-of-00001.safetensors", {floats("a", 1)});
  auto error = refusal();
  EXPECT_EQ(error.code(), ErrorCode::checkpoint);
  EXPECT_THAT(
      facts(error.findings()),
      ElementsAre("two_shard_sets  model-00001-of-00001.safetensors", "two_shard_sets  " + kS1));
}

TEST_F(CheckpointOpen, RefusesSeveralIndexesOfOtherNames) {
  write_index({}, "{}", "x.safetensors.index.json");
  write_index({}, "{}", "y.safetensors.index.json");
  auto error = refusal();
  EXPECT_EQ(error.code(), ErrorCode::checkpoint);
  EXPECT_THAT(facts(error.findings()), ElementsAre("two_indexes  x.safetensors.index.json",
                                                   "two_indexes  y.safetensors.index.json"));
  EXPECT_TRUE(open("x.safetensors.index.json").tensors().empty());
}

TEST_F(CheckpointOpen, RefusesDuplicatesThatNoIndexDecides) {
  write("x.safetensors", {floats("a", 1)});
  write("y.safetensors", {floats("a", 2), floats("b", 1)});
  auto error = refusal();
  EXPECT_EQ(error.code(), ErrorCode::checkpoint);
  EXPECT_THAT(error.what(),
              HasSubstr("tensor 'a': it stands in x.safetensors and in y.safetensors"));
  EXPECT_THAT(facts(error.findings()), ElementsAre("duplicate_tensor a y.safetensors"));
}

TEST_F(CheckpointOpen, PassesOnAMalformedHeaderAsFormat) {
  write_file(folder_ / "x.safetensors", "short");
  auto error = refusal("x.safetensors");
  EXPECT_EQ(error.code(), ErrorCode::format);
  EXPECT_STREQ(error.what(), "x.safetensors: 5 bytes, but a safetensors file has at least 8");
}

TEST_F(CheckpointOpen, RefusesPickledWeightsWithTheWayOut) {
  write_file(folder_ / "pytorch_model.bin", "");
  for (auto name : {"", "pytorch_model.bin"}) {
    auto error = refusal(name);
    EXPECT_EQ(error.code(), ErrorCode::unsupported);
    EXPECT_THAT(error.what(), HasSubstr("pickled ('pytorch_model.bin')"));
    EXPECT_THAT(error.next_step(), HasSubstr("safe_serialization"));
  }
  write_index({{"a", "pytorch_model.bin"}}, "{}", "pytorch_model.bin.index.json");
  EXPECT_EQ(refusal("pytorch_model.bin.index.json").code(), ErrorCode::unsupported);
}

TEST_F(CheckpointOpen, SaysWhatIsThereWhenThereIsNothingToRead) {
  EXPECT_EQ(refusal("no").code(), ErrorCode::not_found);
  EXPECT_THAT(refusal("no").what(), HasSubstr("/no: there is no such file"));
  EXPECT_THAT(refusal().what(), HasSubstr("holds no *.safetensors file; it is empty"));
  write_file(folder_ / "config.json", "{}");
  auto error = refusal();
  EXPECT_EQ(error.code(), ErrorCode::not_found);
  EXPECT_THAT(error.what(), HasSubstr("holds no *.safetensors file among its 1 entries"));
  EXPECT_THAT(error.next_step(), HasSubstr("give the folder"));
}

TEST_F(CheckpointOpen, DoesNotWaitForAPipe) {
  ASSERT_EQ(::mkfifo((folder_ / "model.safetensors").c_str(), 0666), 0);
  EXPECT_THAT(refusal().what(), HasSubstr("model.safetensors: not a regular file"));
}

TEST_F(CheckpointOpen, PassesOnFailuresOfTheSystem) {
  write_three_shards();
  for (auto [number, error, code] :
       {std::tuple(1, EACCES, ErrorCode::permission), std::tuple(2, EIO, ErrorCode::io)}) {
    FaultSyscalls calls;
    calls.fail_call(CallKind::open, number, error);
    auto refused = refusal_of([&] { Checkpoint::open(calls, folder_.path(), 1); });
    ASSERT_TRUE(refused);
    EXPECT_EQ(refused->code(), code);
  }
}

TEST_F(CheckpointOpen, ReadsUnderShortAndInterruptedTransfers) {
  write_three_shards();
  write_index({{"a", kS1}, {"b", kS2}, {"c", kS3}});
  FaultSyscalls calls;
  calls.shorten_transfers(3, 1);
  EXPECT_EQ(Checkpoint::open(calls, folder_.path(), 2).tensors().size(), 3u);
}

}  // namespace
}  // namespace weightloom
