#include "weightloom/execute/checksums.h"

#include <cerrno>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "weightloom/base/error_testing.h"
#include "weightloom/base/fault_syscalls_testing.h"
#include "weightloom/base/temporary_folder_testing.h"
#include "weightloom/execute/convert_testing.h"
#include "weightloom/execute/tensor_hash_internal.h"
#include "weightloom/execute/verify.h"

namespace weightloom::testing {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr std::string_view kDigest = "99aa06d3014798d86001c324468d497f";  // of no bytes

std::string digest_of(std::string_view text) {
  TensorHash hash;
  hash.add(std::as_bytes(std::span(text)));
  return hash.digest();
}

TEST(TensorHash, IsWhatXxhsumPrints) {
  EXPECT_EQ(TensorHash().digest(), kDigest);
  // printf 'weightloom' | xxhsum -H2
  EXPECT_EQ(digest_of("weightloom"), "85f4456e055b8294e13aa5092048da23");
}

TEST(TensorHash, PiecesOfAnySizeGiveTheSame) {
  const std::string text = content_of({"t", DType::U8, {5000}});
  for (size_t piece : {1U, 3U, 64U, 240U, 1024U, 4999U}) {
    TensorHash hash;
    for (size_t at = 0; at < text.size(); at += piece) {
      hash.add(std::as_bytes(std::span(text)).subspan(at, std::min(piece, text.size() - at)));
    }
    EXPECT_EQ(hash.digest(), digest_of(text)) << piece;
  }
}

TEST(Checksums, AreWrittenByNameAndReadBack) {
  const Checksums checksums{{"b", std::string(kDigest)}, {"a\"é", std::string(32, '0')}};
  const std::string text = format_checksums(checksums);
  EXPECT_EQ(text, R"({
  "format": "weightloom.checksums/1",
  "algorithm": "xxh3-128",
  "tensors": {
    "a\"é": "00000000000000000000000000000000",
    "b": "99aa06d3014798d86001c324468d497f"
  }
}
)");
  EXPECT_EQ(parse_checksums(text, "f"), checksums);
}

TEST(Checksums, WhatIsNoneOfOursIsRefused) {
  const std::string head = R"({"format": "weightloom.checksums/1", "algorithm": "xxh3-128", )";
  const std::string zeros(32, '0');
  for (const std::string& text :
       {std::string(), std::string("[]"), std::string("{}"),
        std::string(R"({"format": "weightloom.checksums/2", "tensors": {}})"),
        std::string(R"({"format": "weightloom.checksums/1", "algorithm": "md5", "tensors": {}})"),
        head + R"("tensors": []})", head + R"("tensors": {"a": 5}})",
        head + R"("tensors": {"a": "00"}})",
        head + R"("tensors": {"a": "0000000000000000000000000000000X"}})",
        head + R"("tensors": {"a": ")" + zeros + R"(", "a": ")" + zeros + R"("}})"}) {
    const auto error = refusal_of([&] { parse_checksums(text, "side.json"); });
    ASSERT_TRUE(error) << text;
    EXPECT_EQ(error->code(), ErrorCode::format);
    EXPECT_THAT(error->what(), HasSubstr("side.json: ")) << text;
  }
}

class ConvertChecksumsTest : public ::testing::Test {
 protected:
  std::string at(const std::string& name) const { return folder_ / name; }
  Checksums checksums_in(const std::string& name) const {
    return parse_checksums(read_whole_file(system_calls(), at(name + "/weightloom.checksums.json")),
                           name);
  }
  /// By hand: of the bytes that stand in the files.
  Checksums expected(const std::string& name) const {
    Checksums result;
    const Checkpoint checkpoint = Checkpoint::open(system_calls(), at(name));
    for (const StoredTensor& tensor : checkpoint.tensors()) {
      const std::string text = read_whole_file(
          system_calls(), checkpoint.files()[static_cast<size_t>(tensor.file)].path);
      result[tensor.name] = digest_of(std::string_view(text).substr(
          static_cast<size_t>(tensor.offset_bytes), static_cast<size_t>(tensor.size_bytes)));
    }
    return result;
  }
  Job with_checksums(const std::string& from, const std::string& to, std::optional<Side> side) {
    Job result = job(at(from), at(to), side);
    result.output.checksums = true;
    return result;
  }
  std::vector<std::string> codes(const std::string& name) const {
    std::vector<std::string> codes;
    const Checkpoint a = Checkpoint::open(system_calls(), at(name));
    for (const Finding& finding : verify_readable(system_calls(), a, {}).findings) {
      codes.push_back(finding.code);
    }
    return codes;
  }

  TemporaryFolder folder_;
};

TEST_F(ConvertChecksumsTest, AreOfTheBytesInTheFilesHoweverThoseCameAbout) {
  write_folder(at("hub"), hub_files(150));
  run(with_checksums("hub", "runtime", Side::runtime));
  EXPECT_EQ(checksums_in("runtime"), expected("runtime"));
  run(with_checksums("hub", "linked", std::nullopt));
  EXPECT_EQ(checksums_in("linked"), expected("linked"));
  Job renamed = with_checksums("hub", "renamed", std::nullopt);
  renamed.selection.renames = {{"^lm_head", "head"}};
  const ConvertReport report = run(renamed);
  EXPECT_GT(report.files_linked, 0);
  EXPECT_EQ(report.files_written, 1);
  EXPECT_EQ(checksums_in("renamed"), expected("renamed"));
  EXPECT_TRUE(checksums_in("renamed").contains("head.weight"));
}

TEST_F(ConvertChecksumsTest, DoNotDependOnThreadsAndTiles) {
  const TinyModel model{.layers = 2, .experts = 3, .hidden = 96, .ffn = 1700};
  write_folder(at("hub"), hub_files(3 << 20, model));
  run(with_checksums("hub", "one", Side::runtime));
  EXPECT_EQ(checksums_in("one"), expected("one"));
  Job many = with_checksums("hub", "many", Side::runtime);
  many.run.threads = 8;
  many.run.memory_budget_bytes = 8 << 20;
  run(many);
  EXPECT_EQ(checksums_in("many"), expected("many"));
}

TEST_F(ConvertChecksumsTest, OfWhatAKilledRunMadeAreReadFromItsFiles) {
  write_folder(at("hub"), hub_files());
  Job killed = with_checksums("hub", "out", Side::runtime);
  killed.output.max_shard_bytes = 60;
  killed.output.max_shard_given = true;
  FaultSyscalls calls(quick_calls());
  calls.fail_call(CallKind::fsync, 4, EIO);
  EXPECT_TRUE(refusal_of([&] { run(killed, calls); }));
  killed.output.resume = true;
  EXPECT_GT(run(killed).resumed_bytes, 0);
  EXPECT_EQ(checksums_in("out"), expected("out"));
}

TEST_F(ConvertChecksumsTest, ATensorHalfMadeByAKilledRunIsReadWhole) {
  const TinyModel model{.layers = 1, .experts = 2, .hidden = 512, .ffn = 3000};  // tiles of 512 KiB
  write_folder(at("hub"), hub_files(1 << 30, model));
  Job killed = with_checksums("hub", "out", Side::runtime);
  // As if killed after seven tiles that were made durable: inside gate_up_proj.
  FaultSyscalls calls(quick_calls());
  calls.fail_every(CallKind::rename_new, EIO);
  EXPECT_TRUE(refusal_of([&] { run(killed, calls); }));
  const std::string journal = at(".out.weightloom-work/journal");
  std::string text = read_whole_file(system_calls(), journal);
  text = text.substr(0, text.find("tiles ")) + "tiles 7\n";
  write_text(journal, text);
  killed.output.resume = true;
  EXPECT_GT(run(killed).resumed_bytes, 0);
  EXPECT_EQ(checksums_in("out"), expected("out"));
}

TEST_F(ConvertChecksumsTest, AreNeverInherited) {
  write_folder(at("hub"), hub_files());
  run(with_checksums("hub", "summed", std::nullopt));
  run(job(at("summed"), at("copy"), std::nullopt));
  EXPECT_FALSE(status_of(system_calls(), at("copy/weightloom.checksums.json")));
  Job over = job(at("hub"), at("summed"), Side::runtime);
  over.output.overwrite = true;
  run(over);
  EXPECT_FALSE(status_of(system_calls(), at("summed/weightloom.checksums.json")));
}

TEST_F(ConvertChecksumsTest, VerifyFindsWhatDisagrees) {
  write_folder(at("hub"), hub_files());
  run(with_checksums("hub", "out", std::nullopt));
  EXPECT_THAT(codes("out"), ElementsAre());
  const std::string path = at("out/weightloom.checksums.json");
  Checksums checksums = checksums_in("out");
  const std::string norm = checksums.at("model.norm.weight");
  checksums["model.norm.weight"] = std::string(32, '0');
  checksums["nowhere"] = checksums.at("lm_head.weight");
  checksums.erase("lm_head.weight");
  write_text(path, format_checksums(checksums));
  EXPECT_THAT(codes("out"),
              ElementsAre("checksum_missing", "checksum_mismatch", "checksum_unknown"));
  const Checkpoint out = Checkpoint::open(system_calls(), at("out"));
  const VerifyReport report = verify_readable(system_calls(), out, {});
  EXPECT_EQ(report.findings[1].message,
            "tensor 'model.norm.weight' has the digest " + norm +
                ", but weightloom.checksums.json says 00000000000000000000000000000000");
  EXPECT_EQ(report.findings[1].severity, Severity::error);
  // One shard by itself says nothing about the others.
  EXPECT_THAT(codes("out/model.safetensors"), ElementsAre());
}

TEST_F(ConvertChecksumsTest, OneFileHasNoPlaceForThem) {
  write_folder(at("hub"), hub_files());
  const auto error =
      refusal_of([&] { run(with_checksums("hub", "one.safetensors", std::nullopt)); });
  ASSERT_TRUE(error);
  EXPECT_EQ(error->code(), ErrorCode::usage);
}

}  // namespace
}  // namespace weightloom::testing
