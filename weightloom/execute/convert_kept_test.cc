// Conversions that keep the source's files: what is linked, what the kernel copies, what is
// written.
#include <cerrno>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include "weightloom/base/error_testing.h"
#include "weightloom/base/fault_syscalls_testing.h"
#include "weightloom/base/temporary_folder_testing.h"
#include "weightloom/execute/convert_testing.h"
#include "weightloom/execute/sharing_disk_testing.h"
#include "weightloom/execute/verify.h"

namespace weightloom::testing {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

const SharingDisk& sharing_disk() {
  static const SharingDisk disk(quick_calls());
  return disk;
}

class KeptTest : public ::testing::Test {
 protected:
  KeptTest() { write_folder(at("src"), hub_files(150)); }

  std::string at(const std::string& name) const { return folder_ / name; }
  Folder files(const std::string& name) const { return read_folder(at(name)).value(); }
  FileStatus status(const std::string& name) const { return system_calls().lstat(at(name)).status; }
  Job same(const std::string& destination = "out") const {
    return job(at("src"), at(destination), std::nullopt);
  }
  Job renaming(std::vector<Rename> renames) const {
    Job result = same();
    result.selection.renames = std::move(renames);
    return result;
  }
  /// The tensors of src with lm_head renamed to head.
  Tensors with_head() const {
    Tensors tensors = read_tensors(at("src"));
    auto node = tensors.extract("lm_head.weight");
    node.key() = "head.weight";
    tensors.insert(std::move(node));
    return tensors;
  }

  TemporaryFolder folder_;
};

const std::vector<Rename> kHead = {{"^lm_head", "head"}};

TEST_F(KeptTest, ACopyInTheSameLayoutIsTheSourcesFilesLinked) {
  Folder odd = files("src");
  odd["model.safetensors.index.json"] += "\n\n";
  write_folder(at("src"), odd);
  const ConvertReport report = run(same());
  Folder made = files("out");
  EXPECT_EQ(made.erase("weightloom.json"), 1U);
  EXPECT_EQ(made, odd);
  EXPECT_EQ(report.files_linked, std::ssize(report.files));
  EXPECT_EQ(report.files_written + report.files_copied, 0);
  EXPECT_EQ(report.bytes_written, 0);
  EXPECT_EQ(report.bytes_read, 0);
  EXPECT_EQ(report.bytes_needed, 360);
  for (const std::string& name : report.files) {
    EXPECT_EQ(status("out/" + name).inode, status("src/" + name).inode);
  }
  EXPECT_NE(status("out/config.json").inode, status("src/config.json").inode);
}

TEST_F(KeptTest, AFileWithARenamedTensorIsWrittenAndTheOthersAreLinked) {
  const ConvertReport report = run(renaming(kHead));
  EXPECT_EQ(read_tensors(at("out")), with_head());
  EXPECT_EQ(report.files_written, 1);
  EXPECT_EQ(report.files_linked, std::ssize(report.files) - 1);
  EXPECT_THAT(files("out")["model.safetensors.index.json"], HasSubstr("\"head.weight\""));
  EXPECT_THAT(files("out")["weightloom.json"], HasSubstr("\"layout\": \"unknown\""));
}

TEST_F(KeptTest, WhereTheFilesystemSharesBlocksTheKernelCopies) {
  FaultSyscalls calls(sharing_disk());
  const ConvertReport report = run(renaming(kHead), calls);
  EXPECT_EQ(read_tensors(at("out")), with_head());
  EXPECT_EQ(report.files_copied, 1);
  EXPECT_EQ(report.files_written, 0);
  EXPECT_EQ(report.bytes_written, 0);
  EXPECT_EQ(calls.calls(CallKind::copy_file_range), 1);
  EXPECT_EQ(calls.calls(CallKind::fallocate), 0);
}

TEST_F(KeptTest, WhatTheKernelRefusesIsWritten) {
  for (int error : {EXDEV, EOPNOTSUPP, EINVAL}) {
    FaultSyscalls calls(sharing_disk());
    calls.fail_every(CallKind::copy_file_range, error);
    EXPECT_EQ(run(renaming(kHead), calls).files_written, 1);
    EXPECT_EQ(read_tensors(at("out")), with_head());
    remove_all(system_calls(), at("out"));
  }
}

TEST_F(KeptTest, WhatCannotBeLinkedIsCopiedByTheKernelOrWritten) {
  for (int error : {EXDEV, EPERM, EMLINK, EOPNOTSUPP}) {
    for (const Syscalls* disk : {&quick_calls(), static_cast<const Syscalls*>(&sharing_disk())}) {
      FaultSyscalls calls(*disk);
      calls.fail_every(CallKind::link_followed, error);
      const ConvertReport report = run(same(), calls);
      EXPECT_EQ(report.files_linked, 0);
      EXPECT_EQ(disk == &sharing_disk() ? report.files_copied : report.files_written,
                std::ssize(report.files));
      Folder made = files("out");
      made.erase("weightloom.json");
      EXPECT_EQ(made, files("src"));
      remove_all(system_calls(), at("out"));
    }
  }
}

TEST_F(KeptTest, ASnapshotOfLinksGivesLinksOfTheBlobs) {
  make_folder(system_calls(), at("blobs"));
  make_folder(system_calls(), at("snapshot"));
  int number = 0;
  for (const auto& [name, text] : files("src")) {
    const std::string blob = "blobs/" + std::to_string(number++);
    write_text(at(blob), text);
    ASSERT_EQ(::symlink(("../" + blob).c_str(), at("snapshot/" + name).c_str()), 0);
  }
  const ConvertReport report = run(job(at("snapshot"), at("out"), std::nullopt));
  EXPECT_EQ(report.files_linked, std::ssize(report.files));
  for (const std::string& name : report.files) {
    EXPECT_EQ(status("out/" + name).kind, FileKind::file);
    EXPECT_EQ(status("out/" + name).inode,
              system_calls().stat(at("snapshot/" + name)).status.inode);
  }
}

TEST_F(KeptTest, OneFileBecomesAFolderThatReadersKnow) {
  write_folder(at("single"), {{"odd name.safetensors", hub_files().at("model.safetensors")}});
  const ConvertReport report = run(job(at("single/odd name.safetensors"), at("out"), std::nullopt));
  EXPECT_THAT(report.files, ElementsAre("model.safetensors"));
  EXPECT_EQ(report.files_linked, 1);
}

TEST_F(KeptTest, AnotherSizeOrPartIsFilledAnew) {
  Job resized = same();
  resized.output.max_shard_given = true;
  EXPECT_THAT(run(resized).files, ElementsAre("model.safetensors"));
  Job part = same("part");
  part.selection.include = {"*.w1.weight"};
  EXPECT_THAT(run(part).files, ElementsAre("model.safetensors"));
}

TEST_F(KeptTest, AShardWithMoreThanTheIndexTakesIsWrittenWithoutTheRest) {
  Folder odd = checkpoint_files({{"a", DType::U8, {3}}, {"b", DType::U8, {4}}}, 4);
  odd["model.safetensors.index.json"] = R"({"weight_map": {"a": "model-00001-of-00002.safetensors",
      "b": "model-00002-of-00002.safetensors"}})";
  const Folder two = checkpoint_files({{"b", DType::U8, {4}}, {"more", DType::U8, {5}}});
  odd["model-00002-of-00002.safetensors"] = two.at("model.safetensors");
  write_folder(at("odd"), odd);
  const ConvertReport report = run(job(at("odd"), at("out"), std::nullopt));
  EXPECT_EQ(report.files_linked, 1);
  EXPECT_EQ(report.files_written, 1);
  EXPECT_EQ(read_tensors(at("out")).size(), 2U);
  EXPECT_EQ(files("out")["model.safetensors.index.json"], odd["model.safetensors.index.json"]);
}

TEST_F(KeptTest, AFolderOverItselfKeepsItsFiles) {
  const Folder before = files("src");
  Job over = same("src");
  over.output.overwrite = true;
  const ConvertReport report = run(over);
  EXPECT_EQ(report.files_linked, std::ssize(report.files));
  Folder after = files("src");
  after.erase("weightloom.json");
  EXPECT_EQ(after, before);
}

TEST_F(KeptTest, AFileOverItselfStays) {
  write_text(at("one.safetensors"), hub_files().at("model.safetensors"));
  Job over = job(at("one.safetensors"), at("one.safetensors"), std::nullopt);
  over.output.overwrite = true;
  EXPECT_EQ(run(over).files_linked, 1);
  EXPECT_EQ(files("one.safetensors").at(""), hub_files().at("model.safetensors"));
  EXPECT_THAT(list_folder(system_calls(), folder_.path()), ElementsAre("one.safetensors", "src"));
}

TEST_F(KeptTest, ARenamedFolderOverItselfIsTheRenamedOne) {
  const Tensors expected = with_head();
  Job over = renaming(kHead);
  over.destination = at("src");
  over.output.overwrite = true;
  run(over);
  EXPECT_EQ(read_tensors(at("src")), expected);
}

TEST_F(KeptTest, ASourceThatChangedAfterPlanningIsRefused) {
  static const Registry registry = Registry::built_in();
  const Checkpoint source = Checkpoint::open(quick_calls(), at("src"));
  const Conversion conversion = plan_conversion(quick_calls(), source, {}, registry);
  const std::string shard = source.files()[0].path;
  write_text(shard, read_whole_file(system_calls(), shard) + "x");
  const auto error = refusal_of(
      [&] { convert(quick_calls(), source, conversion, false, at("out"), {}, same().run); });
  ASSERT_TRUE(error);
  EXPECT_EQ(error->code(), ErrorCode::checkpoint);
  EXPECT_THAT(list_folder(system_calls(), folder_.path()), ElementsAre("src"));
}

/// A disk with so many bytes free.
class SmallDisk : public SharingDisk {
 public:
  SmallDisk(int64_t free, bool shares) : SharingDisk(quick_calls()), free_(free), shares_(shares) {}
  int64_t free_bytes(const std::string&) const override { return free_; }
  int64_t filesystem_type(const std::string& path) const override {
    return shares_ ? SharingDisk::filesystem_type(path) : quick_calls().filesystem_type(path);
  }

 private:
  int64_t free_;
  bool shares_;
};

TEST_F(KeptTest, OnlyWhatIsWrittenNeedsDiskSpace) {
  constexpr int64_t kAllowance = 1 << 20;
  run(same(), SmallDisk(kAllowance, false));
  const auto error = refusal_of([&] {
    Job resized = same("resized");
    resized.output.max_shard_given = true;
    run(resized, SmallDisk(kAllowance, false));
  });
  EXPECT_EQ(error.value().code(), ErrorCode::no_space);
  remove_all(system_calls(), at("out"));
  remove_all(system_calls(), at("src"));
  write_folder(at("src"), hub_files(1 << 19, {.hidden = 256, .ffn = 300}));
  EXPECT_EQ(refusal_of([&] { run(renaming(kHead), SmallDisk(kAllowance + 40'000, false)); })
                .value()
                .code(),
            ErrorCode::no_space);
  EXPECT_EQ(run(renaming(kHead), SmallDisk(kAllowance + 40'000, true)).files_copied, 1);
}

TEST_F(KeptTest, ProgressCountsKeptFilesAndEndsAtTheTotal) {
  for (const Syscalls* disk : {&quick_calls(), static_cast<const Syscalls*>(&sharing_disk())}) {
    Job watched = renaming(kHead);
    int64_t last = 0;
    watched.run.progress = [&](const Progress& progress) {
      EXPECT_GE(progress.bytes_done, last);
      EXPECT_EQ(progress.bytes_total, 360);
      last = progress.bytes_done;
    };
    run(watched, *disk);
    EXPECT_EQ(last, 360);
    remove_all(system_calls(), at("out"));
  }
}

TEST_F(KeptTest, ACancelledKernelCopyLeavesNothing) {
  std::stop_source stop;
  Job cancelled = renaming({{"w1", "v1"}});
  cancelled.run.stop = stop.get_token();
  cancelled.run.progress = [&](const Progress&) { stop.request_stop(); };
  EXPECT_EQ(refusal_of([&] { run(cancelled, sharing_disk()); }).value().code(),
            ErrorCode::cancelled);
  EXPECT_THAT(list_folder(system_calls(), folder_.path()), ElementsAre("src"));
}

TEST_F(KeptTest, ARenamedCopyVerifiesUnderTheSameRenames) {
  run(renaming(kHead));
  const Checkpoint a = Checkpoint::open(system_calls(), at("out"));
  const Checkpoint b = Checkpoint::open(system_calls(), at("src"));
  Selection selection;
  EXPECT_FALSE(verify_equal(system_calls(), a, b, selection, Registry::built_in(), {}).equal);
  selection.renames = kHead;
  EXPECT_TRUE(verify_equal(system_calls(), a, b, selection, Registry::built_in(), {}).equal);
}

TEST_F(KeptTest, RenamesBeforeAMappingAreUndoneOnTheWayBack) {
  Folder wrapped = files("src");
  const Folder plain = wrapped;
  Job wrap = renaming({{"^", "module."}});
  run(wrap);
  remove_all(system_calls(), at("out/weightloom.json"));
  Job there = job(at("out"), at("runtime"), Side::runtime);
  there.selection.renames = {{"^module\\.(.)", "\\1"}};
  run(there);
  EXPECT_EQ(read_tensors(at("runtime")), runtime_tensors());
  run(job(at("runtime"), at("back"), Side::hub));
  Folder back = files("back");
  back.erase("weightloom.json");
  EXPECT_EQ(back, files("out"));
}

TEST_F(KeptTest, WhatStaysBehindInFoldersIsTold) {
  write_folder(at("src"), {{"onnx/model.onnx", "x"}});
  const ConvertReport report = run(same());
  ASSERT_EQ(report.findings.size(), 1U);
  EXPECT_EQ(report.findings[0].code, "not_copied");
  EXPECT_THAT(report.findings[0].message, HasSubstr("onnx/model.onnx"));
}

}  // namespace
}  // namespace weightloom::testing
