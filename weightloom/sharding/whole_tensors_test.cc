#include "weightloom/sharding/whole_tensors.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "weightloom/base/error_testing.h"
#include "weightloom/base/temporary_folder_testing.h"
#include "weightloom/layout/layout_testing.h"
#include "weightloom/safetensors/safetensors_testing.h"

namespace weightloom::testing {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr const char* kManifest =
    R"({"format": "weightloom.layout/1", "mesh": [["fsdp", 2]], "tensors": {
    "norm": {"shape": [2], "dtype": "U8", "placements": []},
    "proj": {"shape": [3, 2], "dtype": "U8", "placements": [{"axis": "fsdp", "shard": 0}]}}})";

class WholeTensorsTest : public ::testing::Test {
 protected:
  WholeTensorsTest() {
    write_file(folder_ / "layout.json", kManifest);
    write_rank(0, {{"norm", DType::U8, {2}, "ab"}, {"proj", DType::U8, {2, 2}, "0123"}});
    write_rank(1, {{"norm", DType::U8, {2}, "ab"}, {"proj", DType::U8, {1, 2}, "45"}});
  }

  void write_rank(int rank, const std::vector<TestTensor>& tensors) const {
    write_safetensors(folder_ / fmt::format("rank-{:05d}-of-00002.safetensors", rank), tensors);
  }
  WholeTensors whole() const {
    return whole_tensors(system_calls(), Checkpoint::open(system_calls(), folder_.path()));
  }
  std::vector<std::string> codes() const {
    std::vector<std::string> texts;
    for (const Finding& finding : whole().findings) texts.push_back(finding.code);
    return texts;
  }

  TemporaryFolder folder_;
};

TEST_F(WholeTensorsTest, PartsArePutTogether) {
  const WholeTensors tensors = whole();
  EXPECT_THAT(tensors.findings, IsEmpty());
  ASSERT_EQ(tensors.tensors.size(), 2U);
  EXPECT_EQ(tensors.tensors[1].name, "proj");
  // Stored tensors by name, then file: norm of rank 0, norm of rank 1, proj of rank 0, of rank 1.
  EXPECT_EQ(to_string(tensors.tensors[1].layout), "(3, 2):[0<-s2+0 (4:1<-1); 4<-s3+0 (2:1<-1)]");
  EXPECT_EQ(to_string(tensors.tensors[0].layout), "(2):[0<-s0+0 (2:1<-1)]");
  EXPECT_THAT(tensors.replicas, ElementsAre(Replica{0, 1}));
}

TEST_F(WholeTensorsTest, AMissingRankIsNamed) {
  remove_all(system_calls(), folder_ / "rank-00001-of-00002.safetensors");
  const WholeTensors tensors = whole();
  ASSERT_THAT(codes(), ElementsAre("missing_rank"));
  EXPECT_THAT(tensors.findings[0].message,
              HasSubstr("rank-00001-of-00002.safetensors: the file of rank 1 is missing"));
}

TEST_F(WholeTensorsTest, PartsOfAnotherShapeOrDtypeAreRefused) {
  write_rank(1, {{"norm", DType::I8, {2}, "ab"}, {"proj", DType::U8, {2, 2}, "4567"}});
  const WholeTensors tensors = whole();
  ASSERT_THAT(codes(), ElementsAre("part_mismatch", "part_mismatch"));
  EXPECT_THAT(tensors.findings[1].message,
              HasSubstr("tensor 'proj' is U8 [2, 2], but rank 1 of 2 holds U8 [1, 2] of the whole "
                        "[3, 2]"));
}

TEST_F(WholeTensorsTest, PartsThatAreMissingOrUnknownAreRefused) {
  write_rank(1, {{"norm", DType::U8, {2}, "ab"}, {"other", DType::U8, {1}, "x"}});
  EXPECT_THAT(codes(), ElementsAre("missing_part", "unknown_part"));
}

TEST_F(WholeTensorsTest, PlacementsThatDoNotFitAreRefused) {
  write_file(folder_ / "layout.json",
             R"({"format": "weightloom.layout/1", "mesh": [["fsdp", 2]], "tensors": {
             "norm": {"shape": [2], "dtype": "U8", "placements": [{"axis": "tp", "shard": 0}]},
             "proj": {"shape": [3, 2], "dtype": "U8",
                      "placements": [{"axis": "fsdp", "shard": 0}]}}})");
  EXPECT_THAT(codes(), ElementsAre("bad_sharding"));
}

class DcpShardsTest : public ::testing::Test {
 protected:
  /// One tensor `w` of `shape`, at `offsets` of the whole; the metadata as PyTorch writes them.
  void write_shard(int number, const std::string& shape, const std::string& offsets,
                   const std::string& data) const {
    const std::string info = offsets.empty()
                                 ? ""
                                 : R"("__metadata__":{"format":"pt","DCP_SHARDING_INFO":"{\"w\": )"
                                   R"({\"saved_offsets\": )" +
                                       offsets + R"(}}"},)";
    write_file(
        folder_ / fmt::format("shard-{:05d}-model-00001-of-00001.safetensors", number),
        file_text(fmt::format(R"({{{}"w":{{"dtype":"U8","shape":{},"data_offsets":[0,{}]}}}})",
                              info, shape, data.size()),
                  data));
  }
  WholeTensors whole() const {
    return whole_tensors(system_calls(), Checkpoint::open(system_calls(), folder_.path()));
  }

  TemporaryFolder folder_;
};

TEST_F(DcpShardsTest, BoxesArePutTogetherByTheirOffsets) {
  write_shard(1, "[2,1]", "[0, 0]", "ac");
  write_shard(2, "[2,1]", "[0, 1]", "bd");
  const WholeTensors tensors = whole();
  EXPECT_THAT(tensors.findings, IsEmpty());
  EXPECT_EQ(to_string(tensors.tensors.at(0).layout), "(2, 2):[0<-s0+0 (2:2<-1); 1<-s1+0 (2:2<-1)]");
}

TEST_F(DcpShardsTest, AHoleIsRefused) {
  write_shard(1, "[1,2]", "[0, 0]", "ab");
  write_shard(2, "[1,2]", "[2, 0]", "ef");
  const WholeTensors tensors = whole();
  ASSERT_EQ(tensors.findings.size(), 1U);
  EXPECT_THAT(tensors.findings[0].message, HasSubstr("do not make up a tensor [3, 2]: element 2"));
}

TEST_F(DcpShardsTest, WithoutOffsetsCopiesAreReplicas) {
  write_shard(1, "[2]", "", "ab");
  write_shard(2, "[2]", "", "ab");
  EXPECT_THAT(whole().replicas, ElementsAre(Replica{0, 1}));
}

TEST_F(DcpShardsTest, BrokenMetadataAreRefused) {
  write_shard(1, "[2]", "[\\\"x\\\"]", "ab");
  const auto refusal = refusal_of([&] { whole(); });
  ASSERT_TRUE(refusal);
  EXPECT_EQ(refusal->code(), ErrorCode::format);
  write_shard(1, "[2]", "[-1]", "ab");
  EXPECT_EQ(whole().findings.at(0).code, "part_mismatch");
}

}  // namespace
}  // namespace weightloom::testing
