#include <algorithm>
#include <random>
#include <set>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "weightloom/base/error_testing.h"
#include "weightloom/safetensors/header.h"
#include "weightloom/safetensors/safetensors_testing.h"

namespace weightloom {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

/// Removes the padding, after checking that there is just enough of it.
std::string unpadded(const Header& header) {
  std::string json = header.json();
  EXPECT_EQ(json.size() % 8, 0u);
  size_t size = json.find_last_not_of(' ') + 1;
  EXPECT_LT(json.size() - size, 8u);
  return json.substr(0, size);
}

TEST(HeaderLayOut, WritesWiderDTypesFirstThenByName) {
  Header header = Header::lay_out({{"a", DType::BF16, {1}},
                                   {"c", DType::F32, {}},
                                   {"b", DType::F32, {2}},
                                   {"d", DType::I64, {0, 7}}},
                                  {{"format", "pt"}});
  EXPECT_EQ(unpadded(header), R"({"__metadata__":{"format":"pt"},)"
                              R"("d":{"dtype":"I64","shape":[0,7],"data_offsets":[0,0]},)"
                              R"("b":{"dtype":"F32","shape":[2],"data_offsets":[0,8]},)"
                              R"("c":{"dtype":"F32","shape":[],"data_offsets":[8,12]},)"
                              R"("a":{"dtype":"BF16","shape":[1],"data_offsets":[12,14]}})");
  EXPECT_EQ(header.data_bytes(), 14);
}

TEST(HeaderLayOut, PadsNoTensorsToEightBytes) {
  EXPECT_EQ(Header::lay_out({}, {}).json(), "{}      ");
  EXPECT_EQ(Header::lay_out({}, {}).bytes(), file_text("{}      "));
}

TEST(HeaderLayOut, EscapesOnlyWhatJsonRequires) {
  Header header = Header::lay_out({{"层/\"\\\x7f", DType::U8, {1}}}, {{"k\n\t\b\f\r\x01", "é"}});
  EXPECT_EQ(unpadded(header),
            "{\"__metadata__\":{\"k\\n\\t\\b\\f\\r\\u0001\":\"é\"},"
            "\"层/\\\"\\\\\x7f\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1]}}");
}

TEST(HeaderLayOut, PlacesSubByteTensorsInWholeBytes) {
  Header header = Header::lay_out({{"f4", DType::F4, {2, 3}}, {"f6", DType::F6_E3M2, {4}}}, {});
  EXPECT_THAT(header.tensors(), ElementsAre(HeaderTensor{"f6", DType::F6_E3M2, {4}, 0, 3},
                                            HeaderTensor{"f4", DType::F4, {2, 3}, 3, 6}));
}

TEST(HeaderLayOut, RefusesWhatCannotBeWritten) {
  auto refusal = [](std::vector<TensorSpec> tensors, Metadata metadata = {}) {
    auto error = refusal_of([&] { Header::lay_out(tensors, metadata); });
    EXPECT_TRUE(error && error->code() == ErrorCode::usage);
    return error ? std::string(error->what()) : "";
  };
  EXPECT_THAT(refusal({{"", DType::F32, {}}}), HasSubstr("empty name"));
  EXPECT_THAT(refusal({{"__metadata__", DType::F32, {}}}), HasSubstr("reserved"));
  EXPECT_THAT(refusal({{std::string("a\0b", 3), DType::F32, {}}}), HasSubstr("NUL"));
  EXPECT_THAT(refusal({{"\xff", DType::F32, {}}}), HasSubstr("not UTF-8"));
  EXPECT_THAT(refusal({{"a", DType::F32, {}}, {"a", DType::I8, {}}}), HasSubstr("given twice"));
  EXPECT_THAT(refusal({{"a", DType::F4, {3}}}), HasSubstr("F4 [3] does not fill whole bytes"));
  EXPECT_THAT(refusal({{"a", DType::I8, {INT64_MAX / 8}}, {"b", DType::I8, {-1}}}),
              HasSubstr("I8 [-1]"));
  EXPECT_THAT(refusal({}, {{"k", "1"}, {"k", "2"}}), HasSubstr("the key is given twice"));
  EXPECT_THAT(refusal({}, {{"k", "\xff"}}), HasSubstr("not UTF-8"));
}

TEST(HeaderLayOut, RefusesHeadersOverTheLimit) {
  auto error =
      refusal_of([] { Header::lay_out({{std::string(100'000'000, 'a'), DType::U8, {1}}}, {}); });
  ASSERT_TRUE(error);
  EXPECT_EQ(error->code(), ErrorCode::format);
}

/// Random specs with odd names, all dtypes, sizes of zero and more.
class RandomSpecs {
 public:
  explicit RandomSpecs(uint64_t seed) : random_(seed) {}

  std::vector<TensorSpec> tensors() {
    std::vector<TensorSpec> result;
    std::set<std::string> names;
    for (int64_t count = below(12); count > 0; --count) {
      auto name = text();
      if (name.empty() || !names.insert(name).second) continue;
      auto dtype = static_cast<DType>(below(kDTypeCount));
      Shape shape(static_cast<size_t>(below(4)));
      for (auto& dim : shape) dim = below(5);
      if (bits(dtype) < 8) shape.push_back(4 * below(3));  // so that whole bytes are filled
      result.push_back({name, dtype, shape});
    }
    return result;
  }

  Metadata metadata() {
    Metadata result;
    std::set<std::string> keys;
    for (int64_t count = below(4); count > 0; --count) {
      auto key = text();
      if (keys.insert(key).second) result.emplace_back(key, text());
    }
    return result;
  }

  void shuffle(std::vector<TensorSpec>& tensors) {
    std::shuffle(tensors.begin(), tensors.end(), random_);
  }

 private:
  int64_t below(int64_t limit) {
    return static_cast<int64_t>(random_() % static_cast<uint64_t>(limit));
  }
  std::string text() {
    constexpr std::array kPieces = {"a",    "B",    ".", "weight", "\"", "\\", "\n",
                                    "\x1f", "\x7f", "é", "层",     "🜁",  " "};
    std::string result;
    for (int64_t count = below(5); count > 0; --count) {
      result += kPieces[static_cast<size_t>(below(std::ssize(kPieces)))];
    }
    return result;
  }

  std::mt19937_64 random_;
};

TEST(HeaderLayOut, ParseGivesBackTensorsAndMetadata) {
  for (uint64_t seed = 0; seed < 500; ++seed) {
    RandomSpecs random(seed);
    auto tensors = random.tensors();
    auto metadata = random.metadata();
    Header written = Header::lay_out(tensors, metadata);
    Header read = Header::parse(written.json(), written.file_bytes(), "f");
    EXPECT_EQ(read.metadata(), metadata) << "seed " << seed;
    EXPECT_TRUE(std::ranges::equal(read.tensors(), written.tensors())) << "seed " << seed;
    std::vector<TensorSpec> found;
    for (const auto& t : read.tensors()) found.push_back({t.name, t.dtype, t.shape});
    EXPECT_THAT(found, testing::UnorderedElementsAreArray(tensors)) << "seed " << seed;
  }
}

TEST(HeaderLayOut, DoesNotDependOnTheOrderOfTensors) {
  for (uint64_t seed = 0; seed < 100; ++seed) {
    RandomSpecs random(seed);
    auto tensors = random.tensors();
    auto bytes = Header::lay_out(tensors, {}).bytes();
    random.shuffle(tensors);
    EXPECT_EQ(Header::lay_out(tensors, {}).bytes(), bytes) << "seed " << seed;
  }
}

/// A header read from `json` whose data are `data_bytes` long.
Header read_header(const std::string& json, int64_t data_bytes) {
  return Header::parse(json, 8 + static_cast<int64_t>(json.size()) + data_bytes, "f");
}

TEST(HeaderWithNames, KeepsDataOffsetsOrderAndMetadata) {
  const Header header = read_header(
      R"({"b":{"dtype":"U8","shape":[3],"data_offsets":[4,7]},)"
      R"("__metadata__":{"k":"v","format":"pt"},"a":{"dtype":"U8","shape":[4],"data_offsets":[0,4]}})",
      7);
  const Header renamed = header.with_names({"x\"", "y"}, 8);
  EXPECT_EQ(renamed.json().substr(0, renamed.json().find_last_not_of(' ') + 1),
            R"({"__metadata__":{"k":"v","format":"pt"},)"
            R"("x\"":{"dtype":"U8","shape":[4],"data_offsets":[0,4]},)"
            R"("y":{"dtype":"U8","shape":[3],"data_offsets":[4,7]}})");
  const Header read = Header::parse(renamed.json(), renamed.file_bytes(), "f");
  EXPECT_TRUE(std::ranges::equal(read.tensors(), renamed.tensors()));
  EXPECT_EQ(read.metadata(), header.metadata());
}

TEST(HeaderWithNames, DataBeginWhereTheyDidInTheirBlock) {
  for (size_t length : {1U, 5U, 60U, 300U, 4090U, 9000U}) {
    for (int64_t block : {8, 64, 4096}) {
      const Header header = Header::lay_out({{"a", DType::U8, {3}}}, {});
      const Header renamed = header.with_names({std::string(length, 'n')}, block);
      EXPECT_EQ(renamed.data_begin_bytes() % block, header.data_begin_bytes() % block);
      EXPECT_EQ(renamed.data_begin_bytes() % 8, 0);
      EXPECT_LT(renamed.data_begin_bytes(), 8 + static_cast<int64_t>(length) + 80 + block);
      EXPECT_EQ(renamed.data_bytes(), 3);
    }
  }
}

TEST(HeaderWithNames, AnUnalignedSourceIsAlignedInstead) {
  const std::string json = R"({"a":{"dtype":"U8","shape":[3],"data_offsets":[0,3]}})";
  for (size_t spaces = 0; spaces < 8; ++spaces) {
    const Header header = read_header(json + std::string(spaces, ' '), 3);
    EXPECT_EQ(header.with_names({"b"}, 4096).data_begin_bytes() % 8, 0);
  }
}

TEST(HeaderWithNames, RefusesNamesThatCannotBeWritten) {
  const Header header = Header::lay_out({{"a", DType::U8, {3}}, {"b", DType::U8, {3}}}, {});
  for (const auto& names : {std::vector<std::string>{"x", "x"}, {"x", ""}, {"x", "__metadata__"}}) {
    EXPECT_EQ(refusal_of([&] { header.with_names(names, 8); }).value().code(), ErrorCode::usage);
  }
}

}  // namespace
}  // namespace weightloom
