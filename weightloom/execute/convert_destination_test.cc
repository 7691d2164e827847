// Where the output goes: what is refused, what is kept, what is replaced.
#include <cerrno>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include "weightloom/base/error_testing.h"
#include "weightloom/base/fault_syscalls_testing.h"
#include "weightloom/base/temporary_folder_testing.h"
#include "weightloom/execute/convert_testing.h"

namespace weightloom::testing {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsSupersetOf;

class DestinationTest : public ::testing::Test {
 protected:
  DestinationTest() { write_folder(at("hub"), hub_files()); }

  std::string at(const std::string& name) const { return folder_ / name; }
  Folder files(const std::string& name) const { return read_folder(at(name)).value(); }
  std::vector<std::string> names(const std::string& name) const {
    return list_folder(system_calls(), at(name));
  }
  std::vector<std::string> all_names() const { return list_folder(system_calls(), folder_.path()); }
  Job overwriting(const std::string& source, const std::string& destination) const {
    Job result = job(at(source), at(destination), Side::runtime);
    result.output.overwrite = true;
    return result;
  }
  /// The error of a job that must leave all as it was.
  Error refused(const Job& job, const Syscalls& calls = quick_calls()) const {
    const auto before = read_folder(folder_.path());
    const auto error = refusal_of([&] { run(job, calls); });
    EXPECT_EQ(read_folder(folder_.path()), before);
    EXPECT_EQ(status_of(system_calls(), at(".out.weightloom-work")), std::nullopt);
    return error.value_or(Error(ErrorCode::usage, "not refused"));
  }

  TemporaryFolder folder_;
};

TEST_F(DestinationTest, AnEmptyFolderIsTakenWithoutOverwrite) {
  make_folder(system_calls(), at("out"));
  run(job(at("hub"), at("out"), Side::runtime));
  EXPECT_EQ(read_tensors(at("out")), runtime_tensors());
  EXPECT_THAT(all_names(), ElementsAre("hub", "out"));
}

TEST_F(DestinationTest, AFolderWithFilesIsRefusedWithoutOverwrite) {
  write_folder(at("out"), {{"notes.txt", "mine"}});
  const Error error = refused(job(at("hub"), at("out"), Side::runtime));
  EXPECT_EQ(error.code(), ErrorCode::exists);
  EXPECT_THAT(error.next_step(), HasSubstr("--overwrite"));
}

TEST_F(DestinationTest, ASingleFileIsRefusedWithoutOverwriteAndReplacedWithIt) {
  write_text(at("out.safetensors"), "old");
  EXPECT_EQ(refused(job(at("hub"), at("out.safetensors"), Side::runtime)).code(),
            ErrorCode::exists);
  run(overwriting("hub", "out.safetensors"));
  EXPECT_EQ(read_tensors(at("out.safetensors")), runtime_tensors());
  EXPECT_THAT(all_names(), ElementsAre("hub", "out.safetensors"));
}

TEST_F(DestinationTest, ThingsOfTheWrongKindAreRefused) {
  write_text(at("out"), "a file");
  EXPECT_THAT(refused(overwriting("hub", "out")).what(),
              HasSubstr("is a file, the output is a folder"));
  make_folder(system_calls(), at("out.safetensors"));
  EXPECT_THAT(refused(overwriting("hub", "out.safetensors")).what(),
              HasSubstr("is a folder, the output is a file"));
}

TEST_F(DestinationTest, ASymbolicLinkIsRefusedWhereverItLeads) {
  ASSERT_EQ(::symlink("hub", at("out").c_str()), 0);
  EXPECT_THAT(refused(overwriting("hub", "out")).what(), HasSubstr("is a symbolic link"));
  ASSERT_EQ(::unlink(at("out").c_str()), 0);
  ASSERT_EQ(::symlink("nowhere", at("out").c_str()), 0);
  const auto error = refusal_of([&] { run(overwriting("hub", "out")); });
  EXPECT_EQ(error.value().code(), ErrorCode::exists);
}

TEST_F(DestinationTest, AMissingParentIsRefusedWithTheWayToMakeIt) {
  const Error error = refused(job(at("hub"), at("no/where"), Side::runtime));
  EXPECT_EQ(error.code(), ErrorCode::not_found);
  EXPECT_THAT(error.next_step(), HasSubstr("mkdir -p '" + at("no") + "'"));
}

TEST_F(DestinationTest, APathWithoutANameOfItsOwnIsRefused) {
  for (const std::string& path : {at("."), at("hub/.."), at("hub/."), std::string("/")}) {
    const Error error = refused(job(at("hub"), path, Side::runtime));
    EXPECT_EQ(error.code(), ErrorCode::usage) << path << error.what();
  }
}

TEST_F(DestinationTest, AFolderThatMayNotBeWrittenIsRefused) {
  FaultSyscalls calls(quick_calls());
  calls.fail_every(CallKind::access, EACCES);
  EXPECT_EQ(refused(job(at("hub"), at("out"), Side::runtime), calls).code(), ErrorCode::permission);
}

TEST_F(DestinationTest, WhereFoldersCannotBeExchangedOverwriteIsRefusedBeforeWork) {
  write_folder(at("out"), {{"notes.txt", "mine"}});
  for (int error_number : {EINVAL, ENOSYS, EOPNOTSUPP}) {
    FaultSyscalls calls(quick_calls());
    calls.fail_every(CallKind::exchange, error_number);
    const Error error = refused(overwriting("hub", "out"), calls);
    EXPECT_EQ(error.code(), ErrorCode::unsupported);
    EXPECT_EQ(calls.calls(CallKind::pwrite), 0);
  }
}

TEST_F(DestinationTest, WhereRenameCannotPromiseNewnessANewFolderIsStillMade) {
  FaultSyscalls calls(quick_calls());
  calls.fail_every(CallKind::rename_new, EINVAL);
  run(job(at("hub"), at("out"), Side::runtime), calls);
  EXPECT_EQ(read_tensors(at("out")), runtime_tensors());
  run(job(at("hub"), at("out.safetensors"), Side::runtime), calls);
  EXPECT_EQ(read_tensors(at("out.safetensors")), runtime_tensors());
}

/// Another program makes `path` while the conversion runs: at the first call that places files.
class Intruder : public ForwardingSyscalls {
 public:
  explicit Intruder(std::string path) : ForwardingSyscalls(quick_calls()), path_(std::move(path)) {}
  int64_t pwrite(int fd, std::span<const std::byte> buffer, int64_t offset) const override {
    if (path_.ends_with(".safetensors")) {
      write_text(path_, "theirs");
    } else {
      write_folder(path_, {{"theirs", "theirs"}});
    }
    return ForwardingSyscalls::pwrite(fd, buffer, offset);
  }

 private:
  std::string path_;
};

TEST_F(DestinationTest, WhatAppearsMeanwhileIsNotReplaced) {
  for (bool overwrite : {false, true}) {
    const auto folder = refusal_of([&] {
      Job late = overwriting("hub", "out");
      late.output.overwrite = overwrite;
      run(late, Intruder(at("out")));
    });
    EXPECT_EQ(folder.value().code(), ErrorCode::exists);
    EXPECT_EQ(files("out"), (Folder{{"theirs", "theirs"}}));
    remove_all(system_calls(), at("out"));
  }
  const auto file = refusal_of([&] {
    run(job(at("hub"), at("out.safetensors"), Side::runtime), Intruder(at("out.safetensors")));
  });
  EXPECT_EQ(file.value().code(), ErrorCode::exists);
  EXPECT_EQ(files("out.safetensors"), (Folder{{"", "theirs"}}));
}

class Disk : public ForwardingSyscalls {
 public:
  explicit Disk(int64_t free) : free_(free) {}
  int64_t free_bytes(const std::string&) const override { return free_; }

 private:
  int64_t free_;
};

TEST_F(DestinationTest, ADiskThatIsTooSmallIsRefusedWithNumbers) {
  const Error error = refused(job(at("hub"), at("out"), Side::runtime), Disk(1000));
  EXPECT_EQ(error.code(), ErrorCode::no_space);
  EXPECT_THAT(error.what(), HasSubstr("1000 bytes (1000 B) of disk space are free, needed 1049"));
}

TEST_F(DestinationTest, TheDestinationsOtherFilesAreKeptByLinks) {
  write_folder(at("out"), {{"notes.txt", "mine"}, {"sub/deep/x.bin", "deep"}});
  ASSERT_EQ(::symlink("notes.txt", at("out/link").c_str()), 0);
  const auto before = *status_of(system_calls(), at("out/sub/deep/x.bin"));
  run(overwriting("hub", "out"));
  EXPECT_EQ(read_tensors(at("out")), runtime_tensors());
  EXPECT_EQ(files("out")["notes.txt"], "mine");
  EXPECT_EQ(status_of(system_calls(), at("out/sub/deep/x.bin"))->inode, before.inode);
  EXPECT_EQ(system_calls().readlink(at("out/link")).target, "notes.txt");
  EXPECT_THAT(all_names(), ElementsAre("hub", "out"));
}

TEST_F(DestinationTest, FilesThatCannotBeLinkedAreCopied) {
  write_folder(at("out"), {{"notes.txt", "mine"}});
  for (int error : {EPERM, EMLINK, EOPNOTSUPP}) {
    FaultSyscalls calls(quick_calls());
    calls.fail_every(CallKind::link, error);
    run(overwriting("hub", "out"), calls);
    EXPECT_EQ(files("out")["notes.txt"], "mine");
  }
}

TEST_F(DestinationTest, TheSourcesSideFilesWinByName) {
  write_folder(at("out"), {{"config.json", "old"}, {"tokenizer.json", "old"}, {"extra.json", "x"}});
  run(overwriting("hub", "out"));
  EXPECT_EQ(files("out")["config.json"], config_of({}));
  EXPECT_EQ(files("out")["tokenizer.json"], files("hub")["tokenizer.json"]);
  EXPECT_EQ(files("out")["extra.json"], "x");
}

TEST_F(DestinationTest, AnOldCheckpointIsReplacedWithItsIndexAndShards) {
  Folder old = hub_files(60);
  old["notes.txt"] = "mine";
  write_folder(at("out"), old);
  run(overwriting("hub", "out"));
  EXPECT_THAT(names("out"), ElementsAre("config.json", "model.safetensors", "notes.txt",
                                        "tokenizer.json", "weightloom.json"));
}

TEST_F(DestinationTest, OldShardsInFoldersAndUnderOtherNamesAreReplaced) {
  write_folder(at("out"),
               {{"w/a.safetensors", "old"},
                {"w/notes", "mine"},
                {"x.safetensors.index.json", R"({"weight_map": {"t": "w/a.safetensors"}})"}});
  run(overwriting("hub", "out"));
  EXPECT_THAT(names("out"), ElementsAre("config.json", "model.safetensors", "tokenizer.json", "w",
                                        "weightloom.json"));
  EXPECT_THAT(names("out/w"), ElementsAre("notes"));
}

TEST_F(DestinationTest, NoStaleIndexStandsBesideTheNewFile) {
  for (const char* index : {"model.safetensors.index.json", "other.safetensors.index.json"}) {
    write_folder(at("out"), {{index, "broken"}});
    run(overwriting("hub", "out"));
    EXPECT_EQ(read_tensors(at("out")), runtime_tensors()) << index;
    remove_all(system_calls(), at("out"));
  }
}

TEST_F(DestinationTest, ANumberedSetWithoutIndexIsReplacedAndOneBesideACheckpointKept) {
  write_folder(at("out"), {{"m-00001-of-00002.safetensors", "a"}});
  run(overwriting("hub", "out"));
  EXPECT_EQ(files("out").count("m-00001-of-00002.safetensors"), 0U);
  write_text(at("out/m-00001-of-00002.safetensors"), "kept");
  run(overwriting("hub", "out"));
  EXPECT_EQ(files("out")["m-00001-of-00002.safetensors"], "kept");
}

TEST_F(DestinationTest, OldWeightsNeverMixWithFilesThatHaveNoIndex) {
  Folder odd = hub_files();
  odd["odd.safetensors"] = std::move(odd["model.safetensors"]);
  odd.erase("model.safetensors");
  write_folder(at("odd"), odd);
  run(job(at("odd"), at("runtime"), Side::runtime));
  write_folder(at("out"), hub_files());
  write_text(at("out/loose.safetensors"), "kept as long as an index or a name tells it apart");
  Job back = job(at("runtime"), at("out"), Side::hub);
  back.output.overwrite = true;
  run(back);
  EXPECT_THAT(names("out"),
              ElementsAre("config.json", "odd.safetensors", "tokenizer.json", "weightloom.json"));
  EXPECT_EQ(files("out")["odd.safetensors"], odd["odd.safetensors"]);
}

TEST_F(DestinationTest, ASourceMayBeReplacedByItsOwnConversion) {
  const Folder original = files("hub");
  write_text(at("hub/notes.txt"), "mine");
  run(overwriting("hub", "hub"));
  EXPECT_EQ(read_tensors(at("hub")), runtime_tensors());
  EXPECT_EQ(files("hub")["notes.txt"], "mine");
  Job back = job(at("hub"), at("hub"), Side::hub);
  back.output.overwrite = true;
  run(back);
  for (const auto& [name, text] : original) EXPECT_EQ(files("hub")[name], text) << name;
  EXPECT_THAT(all_names(), ElementsAre("hub"));
}

TEST_F(DestinationTest, ASingleFileMayBeReplacedByItsOwnConversion) {
  run(overwriting("hub", "one.safetensors"));
  write_text(at("config.json"), config_of({}));
  Job back = job(at("one.safetensors"), at("one.safetensors"), Side::hub);
  back.output.overwrite = true;
  run(back);
  EXPECT_EQ(read_tensors(at("one.safetensors")), read_tensors(at("hub")));
}

TEST_F(DestinationTest, SideFilesAreTheSourcesTopLevelFilesThatAreNoWeights) {
  write_text(at("hub/pytorch_model.bin"), "pickle");
  write_text(at("hub/model.gguf"), "gguf");
  write_text(at("blob"), "linked");
  ASSERT_EQ(::symlink("../blob", at("hub/vocab.txt").c_str()), 0);
  write_folder(at("hub/sub"), {{"x", "x"}});
  run(job(at("hub"), at("out"), Side::runtime));
  EXPECT_THAT(names("out"), ElementsAre("config.json", "model.safetensors", "tokenizer.json",
                                        "vocab.txt", "weightloom.json"));
  EXPECT_EQ(system_calls().lstat(at("out/vocab.txt")).status.kind, FileKind::file);
}

TEST_F(DestinationTest, AShardWithoutASuffixIsNoSideFile) {
  Folder odd = checkpoint_files({{"a", DType::U8, {3}}});
  odd["shard"] = std::move(odd["model.safetensors"]);
  odd.erase("model.safetensors");
  odd["model.safetensors.index.json"] = R"({"weight_map": {"a": "shard"}})";
  write_folder(at("odd"), odd);
  run(job(at("odd"), at("out"), std::nullopt));
  EXPECT_THAT(names("out"), ElementsAre("model.safetensors", "weightloom.json"));
}

}  // namespace
}  // namespace weightloom::testing
