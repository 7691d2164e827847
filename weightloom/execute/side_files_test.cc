#include <cerrno>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include "weightloom/base/error_testing.h"
#include "weightloom/base/fault_syscalls_testing.h"
#include "weightloom/base/temporary_folder_testing.h"
#include "weightloom/execute/convert_testing.h"
#include "weightloom/execute/side_files_internal.h"

namespace weightloom::testing {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

class SideFilesTest : public ::testing::Test {
 protected:
  std::string at(const std::string& name) const { return folder_ / name; }
  std::set<std::string> replaced(const Folder& files, bool stands_by_itself = true) const {
    remove_all(system_calls(), at("f"));
    write_folder(at("f"), files);
    return replaced_files(system_calls(), at("f"), stands_by_itself);
  }

  TemporaryFolder folder_;
};

TEST_F(SideFilesTest, WeightsIndexesRecordAndFoldersStayBehind) {
  Folder files = checkpoint_files({{"a", DType::U8, {1}}});
  for (const char* name :
       {"config.json", "README.md", ".gitattributes", "x.bin", "x.pt", "x.pth", "x.ckpt", "x.gguf",
        "x.h5", "x.msgpack", "x.onnx", "other.safetensors", "pytorch_model.bin.index.json",
        "weightloom.json", "weightloom.checksums.json", "sub/config.json"}) {
    files[name] = "x";
  }
  write_folder(at("f"), files);
  const Checkpoint source = Checkpoint::open(system_calls(), at("f"));
  EXPECT_THAT(side_files_of(system_calls(), source),
              ElementsAre(".gitattributes", "README.md", "config.json"));
}

TEST_F(SideFilesTest, WhatStandsInFoldersBelowIsNamedButForTheCheckpointsOwn) {
  Folder files = checkpoint_files({{"a", DType::U8, {1}}});
  files["w/a.safetensors"] = std::move(files["model.safetensors"]);
  files.erase("model.safetensors");
  files["model.safetensors.index.json"] = R"({"weight_map": {"a": "w/a.safetensors"}})";
  write_folder(at("f"), files);
  const auto source = [&] { return Checkpoint::open(system_calls(), at("f")); };
  EXPECT_FALSE(not_copied_from(system_calls(), source()));
  write_folder(at("f"), {{"w/notes", "x"}, {"onnx/deep/b", "x"}, {".cache/c", "x"}});
  const auto finding = not_copied_from(system_calls(), source());
  ASSERT_TRUE(finding);
  EXPECT_EQ(finding->severity, Severity::report);
  EXPECT_EQ(finding->code, "not_copied");
  EXPECT_EQ(
      finding->message,
      at("f") +
          ": 2 entries are not copied (in folders below it, or no files): onnx/deep/b, w/notes");
  FaultSyscalls calls(quick_calls());
  const Checkpoint opened = source();
  calls.fail_call(CallKind::list, 1, EACCES);
  EXPECT_EQ(
      not_copied_from(calls, opened)->message,
      at("f") + ": 2 entries are not copied (in folders below it, or no files): onnx/, w/notes");
}

TEST_F(SideFilesTest, ASingleFileHasNone) {
  write_folder(at("f"), hub_files());
  const Checkpoint source = Checkpoint::open(system_calls(), at("f/model.safetensors"));
  EXPECT_THAT(side_files_of(system_calls(), source), IsEmpty());
}

TEST_F(SideFilesTest, ALinkToNothingIsLeftBehind) {
  write_folder(at("f"), checkpoint_files({{"a", DType::U8, {1}}}));
  ASSERT_EQ(::symlink("nowhere", at("f/vocab.txt").c_str()), 0);
  EXPECT_THAT(side_files_of(system_calls(), Checkpoint::open(system_calls(), at("f"))), IsEmpty());
}

TEST_F(SideFilesTest, ReplacedAreTheWholeFileTheRecordAndChecksumsEvenIfAbsent) {
  EXPECT_THAT(replaced({}), ElementsAre("layout.json", "model.safetensors",
                                        "weightloom.checksums.json", "weightloom.json"));
  EXPECT_THAT(replaced({{"notes", ""}, {"x.bin", ""}}),
              ElementsAre("layout.json", "model.safetensors", "weightloom.checksums.json",
                          "weightloom.json"));
}

TEST_F(SideFilesTest, ReplacedAreIndexesAndTheShardsTheyName) {
  EXPECT_THAT(
      replaced({{"m.safetensors.index.json",
                 R"({"weight_map": {"a": "s/1.safetensors", "b": "2.safetensors"}})"},
                {"3.safetensors", ""}}),
      ElementsAre("2.safetensors", "layout.json", "m.safetensors.index.json", "model.safetensors",
                  "s/1.safetensors", "weightloom.checksums.json", "weightloom.json"));
}

TEST_F(SideFilesTest, ReplacedIsABrokenIndexWithoutItsShards) {
  EXPECT_THAT(replaced({{"model.safetensors.index.json", "broken"}, {"1.safetensors", ""}}),
              ElementsAre("layout.json", "model.safetensors", "model.safetensors.index.json",
                          "weightloom.checksums.json", "weightloom.json"));
}

TEST_F(SideFilesTest, AnIndexThatCannotBeReadIsAnError) {
  write_folder(at("f"), {{"model.safetensors.index.json", "{}"}});
  FaultSyscalls calls;
  calls.fail_every(CallKind::pread, EIO);
  EXPECT_EQ(refusal_of([&] { replaced_files(calls, at("f"), true); }).value().code(),
            ErrorCode::io);
}

TEST_F(SideFilesTest, ReplacedIsANumberedSetThatIsTheCheckpoint) {
  EXPECT_THAT(replaced({{"a-00001-of-00002.safetensors", ""}, {"b.safetensors", ""}}),
              ElementsAre("a-00001-of-00002.safetensors", "layout.json", "model.safetensors",
                          "weightloom.checksums.json", "weightloom.json"));
  EXPECT_THAT(replaced({{"a-00001-of-00002.safetensors", ""}, {"model.safetensors", ""}}),
              ElementsAre("layout.json", "model.safetensors", "weightloom.checksums.json",
                          "weightloom.json"));
}

TEST_F(SideFilesTest, ReplacedAreAllWeightsWhereTheyAreTheCheckpoint) {
  EXPECT_THAT(replaced({{"a.safetensors", ""}, {"b.safetensors", ""}, {"x.bin", ""}}),
              ElementsAre("a.safetensors", "b.safetensors", "layout.json", "model.safetensors",
                          "weightloom.checksums.json", "weightloom.json"));
}

TEST_F(SideFilesTest, ReplacedAreAllWeightsThatWouldBeTakenForPartsOfTheNew) {
  EXPECT_THAT(replaced({{"model.safetensors", ""}, {"loose.safetensors", ""}}, false),
              ElementsAre("layout.json", "loose.safetensors", "model.safetensors",
                          "weightloom.checksums.json", "weightloom.json"));
}

TEST_F(SideFilesTest, CopyingKeepsEveryByteUnderShortTransfers) {
  for (size_t size : {size_t{0}, size_t{1}, (size_t{1} << 20) - 1, (size_t{2} << 20) + 5}) {
    const std::string text(size, 'x');
    write_text(at("from"), text + "end");
    FaultSyscalls calls;
    calls.shorten_transfers(100'000, size);
    copy_file(calls, at("from"), at("to"));
    EXPECT_EQ(read_whole_file(system_calls(), at("to")), text + "end");
  }
}

TEST_F(SideFilesTest, ACopyIsDurable) {
  write_text(at("from"), "text");
  FaultSyscalls calls;
  copy_file(calls, at("from"), at("to"));
  sync_folder(calls, folder_.path());
  calls.lose_unsynced_data();
  EXPECT_EQ(read_whole_file(system_calls(), at("to")), "text");
}

}  // namespace
}  // namespace weightloom::testing
