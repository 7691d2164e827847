// What other packages make of quantised tensors, and of values: tests/data/codec_golden.json, which
// tools/codec_golden.py writes.
#include <cstdint>
#include <cstring>
#include <fstream>
#include <map>
#include <string>
#include <vector>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "weightloom/codec/block_codec_testing.h"
#include "weightloom/codec/cast.h"

namespace weightloom {
namespace {

using namespace testing;
using nlohmann::json;

const std::map<std::string, BlockFormat> kFormats = {
    {"fp8", BlockFormat::fp8},       {"e2m1", BlockFormat::e2m1},
    {"packed", BlockFormat::packed}, {"gptq", BlockFormat::gptq},
    {"awq", BlockFormat::awq},       {"int8", BlockFormat::int8},
    {"table4", BlockFormat::table4}, {"table8", BlockFormat::table8},
    {"q4_0", BlockFormat::q4_0},     {"q4_1", BlockFormat::q4_1},
    {"q5_0", BlockFormat::q5_0},     {"q5_1", BlockFormat::q5_1},
    {"q8_0", BlockFormat::q8_0},     {"q2_k", BlockFormat::q2_k},
    {"q3_k", BlockFormat::q3_k},     {"q4_k", BlockFormat::q4_k},
    {"q5_k", BlockFormat::q5_k},     {"q6_k", BlockFormat::q6_k},
    {"iq4_nl", BlockFormat::iq4_nl}};

DType dtype_of(const json& codec, const char* key, DType otherwise) {
  return codec.contains(key) ? parse_dtype(codec[key].get<std::string>()).value() : otherwise;
}

BlockCodec codec_of(const json& codec) {
  const std::string global = codec.value("global_scale", "none");
  return {.format = kFormats.at(codec["format"]),
          .code_dtype = dtype_of(codec, "code_dtype", DType::F8_E4M3),
          .scale_dtype = dtype_of(codec, "scale_dtype", DType::F32),
          .block_rows = codec.value("block_rows", int64_t{1}),
          .block_cols = codec.value("block_cols", int64_t{1}),
          .bits = codec.value("bits", 8),
          .global_scale = global == "divides" ? GlobalScale::divides : GlobalScale::none,
          .zero_points = codec.value("zero_points", false),
          .group_index = codec.value("group_index", false),
          .groups = codec.value("groups", int64_t{0}),
          .zero_bias = codec.value("zero_bias", 0),
          .factor = codec.value("factor", 1.0F),
          .offset = codec.value("offset", 0.0F)};
}

std::vector<std::byte> bytes_of(const std::string& hex) {
  std::vector<std::byte> bytes;
  for (size_t i = 0; i < hex.size(); i += 2) {
    bytes.push_back(static_cast<std::byte>(std::stoi(hex.substr(i, 2), nullptr, 16)));
  }
  return bytes;
}

std::vector<std::vector<std::byte>> operands_in(const json& golden) {
  std::vector<std::vector<std::byte>> operands;
  for (const json& operand : golden["operands"]) operands.push_back(bytes_of(operand));
  return operands;
}

void expect_decoded(const json& golden, const BlockCodec& codec, const ValueBox& box) {
  const auto given = operands_in(golden);
  std::vector<Matrix> operands = operands_for(codec, box);
  ASSERT_EQ(operands.size(), given.size());
  for (size_t i = 0; i < given.size(); ++i) {
    ASSERT_EQ(operands[i].bytes.size(), given[i].size()) << "operand " << i;
    operands[i].bytes = given[i];
  }
  const DType dtype = parse_dtype(golden["dtype"].get<std::string>()).value();
  const auto expected = bytes_of(golden["values"]);
  EXPECT_EQ(decoded_by(decode_reference, codec, box, operands, dtype).bytes, expected);
  EXPECT_EQ(decoded_by(decode, codec, box, operands, dtype).bytes, expected);
}

void expect_encoded(const json& golden, const BlockCodec& codec, const ValueBox& box) {
  const Encoded expected{operands_in(golden), 0};
  const auto values = bytes_of(golden["values"]);
  EXPECT_EQ(encoded_by(encode_reference, codec, box, values), expected);
  EXPECT_EQ(encoded_by(encode, codec, box, values), expected);
}

TEST(CodecGoldenTest, BitsAreThoseOfThePackages) {
  std::ifstream file(std::string(WEIGHTLOOM_TEST_DATA) + "/codec_golden.json");
  const json cases = json::parse(file);
  ASSERT_GE(cases.size(), 33U);
  for (const json& golden : cases) {
    SCOPED_TRACE(golden["name"].get<std::string>());
    const BlockCodec codec = codec_of(golden["codec"]);
    const ValueBox box{0, golden["rows"], 0, golden["cols"]};
    if (golden["encode"].get<bool>()) {
      expect_encoded(golden, codec, box);
    } else {
      expect_decoded(golden, codec, box);
    }
  }
}

}  // namespace
}  // namespace weightloom
