#include <cerrno>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "weightloom/base/error_testing.h"
#include "weightloom/base/fault_syscalls_testing.h"
#include "weightloom/base/temporary_folder_testing.h"
#include "weightloom/execute/convert_testing.h"
#include "weightloom/execute/kept_files_internal.h"

namespace weightloom::testing {
namespace {

using ::testing::ElementsAre;

class KeptFilesTest : public ::testing::Test {
 protected:
  std::string at(const std::string& name) const { return folder_ / name; }

  /// "file: number of its twin, = if the header is the same" for each file that `output` makes of
  /// the checkpoint at src.
  std::vector<std::string> twins(const Selection& selection, const OutputOptions& output = {},
                                 const std::string& destination = "out") const {
    static const Registry registry = Registry::built_in();
    const Checkpoint source = Checkpoint::open(system_calls(), at("src"));
    const Conversion conversion = plan_conversion(system_calls(), source, selection, registry);
    EXPECT_FALSE(conversion.is_refused(false));
    const ShardLayout layout =
        output_layout(system_calls(), source, conversion, destination, output);
    std::vector<std::string> texts;
    const auto found = find_twins(conversion.program, layout, source);
    for (size_t i = 0; i < found.size(); ++i) {
      texts.push_back(layout.files()[i].name + ":");
      if (!found[i]) continue;
      texts.back() += " " + std::to_string(found[i]->file);
      if (found[i]->same_header) texts.back() += "=";
    }
    return texts;
  }

  TemporaryFolder folder_;
};

const std::vector<TensorSpec> kThree = {
    {"a", DType::U8, {3}}, {"b", DType::U8, {4}}, {"c", DType::U8, {0}}};

TEST_F(KeptFilesTest, WhatStaysTheSameHasItsFileForATwin) {
  write_folder(at("src"), checkpoint_files(kThree, 4));
  EXPECT_THAT(twins({}), ElementsAre("model-00001-of-00002.safetensors: 0=",
                                     "model-00002-of-00002.safetensors: 1="));
}

TEST_F(KeptFilesTest, ARenamedFileHasTheDataUnderAnotherHeader) {
  write_folder(at("src"), checkpoint_files(kThree, 4));
  Selection selection;
  selection.renames = {{"^b$", "d"}};
  EXPECT_THAT(twins(selection), ElementsAre("model-00001-of-00002.safetensors: 0=",
                                            "model-00002-of-00002.safetensors: 1"));
}

TEST_F(KeptFilesTest, OtherOrdersSplitsAndPartsHaveNone) {
  write_folder(at("src"), checkpoint_files(kThree, 4));
  OutputOptions whole;
  whole.max_shard_given = true;
  EXPECT_THAT(twins({}, whole), ElementsAre("model.safetensors:"));
  Selection part;
  part.include = {"a"};
  EXPECT_THAT(twins(part), ElementsAre("model.safetensors: 0="));  // all of file 0
  part.include = {"b"};
  EXPECT_THAT(twins(part), ElementsAre("model.safetensors: 1"));
  write_folder(at("src"), checkpoint_files({{"a", DType::U8, {3}}, {"b", DType::U8, {3}}}));
  Selection swapped;
  swapped.renames = {{"^b$", "0"}};
  EXPECT_THAT(twins(swapped, whole), ElementsAre("model.safetensors:"));
}

TEST_F(KeptFilesTest, OneFileMadeLikeItsSourceIsItsTwin) {
  write_folder(at("src"), checkpoint_files(kThree));
  EXPECT_THAT(twins({}, {}, "x.safetensors"), ElementsAre("x.safetensors: 0="));
}

TEST_F(KeptFilesTest, FusedTensorsHaveNoTwin) {
  write_folder(at("src"), hub_files());
  Selection runtime;
  runtime.to = Side::runtime;
  EXPECT_THAT(twins(runtime), ElementsAre("model.safetensors:"));
}

TEST_F(KeptFilesTest, FilesystemsThatMoveDataByThemselvesAreKnown) {
  EXPECT_EQ(kernel_copy_on(0x9123683E), KernelCopy::shares_blocks);
  EXPECT_EQ(kernel_copy_on(0x58465342), KernelCopy::shares_blocks);
  EXPECT_EQ(kernel_copy_on(static_cast<int32_t>(0xFF534D42)), KernelCopy::on_server);
  EXPECT_EQ(kernel_copy_on(0xEF53), KernelCopy::through_memory);  // ext4
  EXPECT_EQ(kernel_copy_on(-ENOSYS), KernelCopy::through_memory);
}

/// A source file "data" of two and a half blocks after a header of 100 bytes.
class CopyTwinTest : public KeptFilesTest {
 protected:
  CopyTwinTest() {
    bytes_ = content_of({"x", DType::U8, {10'240}});
    write_text(at("from"), std::string(100, 'h') + bytes_);
  }

  bool copy(const Syscalls& calls) {
    moved_.clear();
    const File from = File::open_read(calls, at("from"));
    return copy_twin(
        calls, from, 100, header_, at("to"), [&](int64_t bytes) { moved_.push_back(bytes); },
        stop_.get_token());
  }

  std::string bytes_;
  Header header_ = Header::lay_out({{"x", DType::U8, {10'240}}}, {});
  std::vector<int64_t> moved_;
  std::stop_source stop_;
};

TEST_F(CopyTwinTest, TheRaggedHeadGoesFirst) {
  EXPECT_TRUE(copy(system_calls()));
  EXPECT_EQ(read_whole_file(system_calls(), at("to")), header_.bytes() + bytes_);
  EXPECT_THAT(moved_, ElementsAre(4096 - 100, 10'240));
}

TEST_F(CopyTwinTest, ShortCopiesAndSignalsChangeNothing) {
  for (uint64_t seed = 0; seed < 5; ++seed) {
    FaultSyscalls calls;
    calls.shorten_transfers(1000, seed);
    EXPECT_TRUE(copy(calls));
    EXPECT_EQ(read_whole_file(system_calls(), at("to")), header_.bytes() + bytes_);
  }
}

TEST_F(CopyTwinTest, ARefusalAtAnyCallLeavesNothing) {
  for (int error : {EXDEV, EOPNOTSUPP, EINVAL, ENOSYS}) {
    for (int64_t number : {0, 1}) {
      FaultSyscalls calls;
      calls.fail_call(CallKind::copy_file_range, number, error);
      EXPECT_FALSE(copy(calls));
      EXPECT_FALSE(status_of(system_calls(), at("to")));
    }
  }
}

TEST_F(CopyTwinTest, AFullDiskIsAnErrorAndSoIsASourceThatEnds) {
  FaultSyscalls calls;
  calls.fail_call(CallKind::copy_file_range, 1, ENOSPC);
  EXPECT_EQ(refusal_of([&] { copy(calls); }).value().code(), ErrorCode::no_space);
  write_text(at("from"), std::string(5000, 'h'));
  EXPECT_EQ(refusal_of([&] { copy(system_calls()); }).value().code(), ErrorCode::io);
}

TEST_F(CopyTwinTest, AStopIsSeenBetweenChunks) {
  stop_.request_stop();
  EXPECT_EQ(refusal_of([&] { copy(system_calls()); }).value().code(), ErrorCode::cancelled);
}

TEST_F(CopyTwinTest, IsDurable) {
  FaultSyscalls calls;
  EXPECT_TRUE(copy(calls));
  sync_folder(calls, folder_.path());
  calls.lose_unsynced_data();
  EXPECT_EQ(read_whole_file(system_calls(), at("to")), header_.bytes() + bytes_);
}

}  // namespace
}  // namespace weightloom::testing
