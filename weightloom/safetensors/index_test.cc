#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "weightloom/base/error_testing.h"
#include "weightloom/safetensors/checkpoint.h"

namespace weightloom {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

std::string refusal(std::string_view json) {
  auto error = refusal_of([&] { parse_index(std::string(json), "i.json"); });
  if (!error) return "";
  EXPECT_EQ(error->code(), ErrorCode::format) << json;
  return error->what();
}

std::string refusal_of_shard(std::string_view shard) {
  return refusal(R"({"weight_map":{"a":")" + std::string(shard) + R"("}})");
}

TEST(ParseIndex, KeepsTheMapInFileOrder) {
  Index index = parse_index(
      R"({"metadata":{"total_size":28,"total_parameters":7,"x":[1]},"weight_map":{"b":"2","a":"d/1"}})",
      "i.json");
  EXPECT_THAT(index.weight_map, ElementsAre(std::pair("b", "2"), std::pair("a", "d/1")));
  EXPECT_EQ(index.total_size, 28);
  EXPECT_EQ(index.total_parameters, 7);
}

TEST(ParseIndex, NeedsNoMetadata) {
  for (auto json : {R"({"weight_map":{}})", R"({"weight_map":{},"metadata":null})",
                    R"( {"weight_map":{},"metadata":{}} )"}) {
    Index index = parse_index(json, "i.json");
    EXPECT_THAT(index.weight_map, IsEmpty());
    EXPECT_EQ(index.total_size, std::nullopt);
  }
}

TEST(ParseIndex, ReadsSizesWrittenAsFractionsAndIgnoresOddOnes) {
  auto total = [](std::string value) {
    return parse_index(R"({"weight_map":{},"metadata":{"total_size":)" + value + "}}", "i.json")
        .total_size;
  };
  EXPECT_EQ(total("1.5e10"), 15'000'000'000);
  EXPECT_EQ(total("1.5"), std::nullopt);
  EXPECT_EQ(total("1e300"), std::nullopt);
  EXPECT_EQ(total("\"12\""), std::nullopt);
}

TEST(ParseIndex, RefusesWhatIsNoIndex) {
  EXPECT_THAT(refusal("{"), HasSubstr("i.json: 1 bytes that are not valid JSON"));
  EXPECT_EQ(refusal("[]"), "i.json: the JSON is a list, but an object is needed");
  EXPECT_EQ(refusal("{}"), "i.json: the key weight_map is missing, so this is no index");
  EXPECT_EQ(refusal(R"({"weight_map":[]})"),
            "i.json: weight_map is a list, but an object is needed");
  EXPECT_EQ(refusal(R"({"weight_map":{"a":1}})"),
            "i.json: tensor 'a': the shard is an integer, but a file name is needed");
  EXPECT_EQ(refusal(R"({"weight_map":{},"metadata":1})"),
            "i.json: metadata is an integer, but an object is needed");
}

TEST(ParseIndex, RefusesDuplicateKeys) {
  EXPECT_EQ(refusal(R"({"weight_map":{"a":"1","a":"2"}})"),
            "i.json: tensor 'a': the name stands in the weight_map twice");
  EXPECT_EQ(refusal(R"({"weight_map":{},"weight_map":{}})"),
            "i.json: the key weight_map stands there twice");
}

TEST(ParseIndex, RefusesShardsOutsideTheFolderAndOddSpellings) {
  EXPECT_EQ(
      refusal_of_shard("../x"),
      "i.json: tensor 'a': the shard '../x' is a path with '..', which could leave the folder");
  EXPECT_THAT(refusal_of_shard("d/../../x"), HasSubstr("'..'"));
  EXPECT_THAT(refusal_of_shard("d/.."), HasSubstr("'..'"));
  EXPECT_THAT(refusal_of_shard("/etc/x"), HasSubstr("an absolute path"));
  EXPECT_THAT(refusal_of_shard("d\\\\x"), HasSubstr("a backslash"));
  EXPECT_THAT(refusal_of_shard(""), HasSubstr("an empty file name"));
  EXPECT_THAT(refusal_of_shard("x\\u0000"), HasSubstr("a NUL"));
  EXPECT_THAT(refusal_of_shard("./x"), HasSubstr("'.' part"));
  EXPECT_THAT(refusal_of_shard("d//x"), HasSubstr("an empty"));
  EXPECT_THAT(refusal_of_shard("d/"), HasSubstr("an empty"));
  EXPECT_EQ(refusal_of_shard("..x/y..z"), "");
}

TEST(FormatIndex, WritesAsTransformersDoes) {
  Index index{{{"b", "2"}, {"a.é\x7f", "1"}, {"a\"", "1"}, {"🜁", "1"}}, 28, 7};
  EXPECT_EQ(format_index(index), R"({
  "metadata": {
    "total_parameters": 7,
    "total_size": 28
  },
  "weight_map": {
    "a\"": "1",
    "a.\u00e9\u007f": "1",
    "b": "2",
    "\ud83d\udf01": "1"
  }
}
)");
}

TEST(FormatIndex, WritesEmptyPartsAsPythonDoes) {
  EXPECT_EQ(format_index({}), "{\n  \"metadata\": {},\n  \"weight_map\": {}\n}\n");
}

TEST(FormatIndex, IsReadBackAsItWas) {
  Index index{{{"a", "1"}, {"b\n", "d/2"}}, 28, std::nullopt};
  Index read = parse_index(format_index(index), "i.json");
  EXPECT_EQ(read.weight_map, index.weight_map);
  EXPECT_EQ(read.total_size, 28);
  EXPECT_EQ(read.total_parameters, std::nullopt);
}

TEST(FormatIndex, RefusesNamesThatAreNotUtf8) {
  auto error = refusal_of([] { format_index({{{"\xff", "1"}}, {}, {}}); });
  ASSERT_TRUE(error);
  EXPECT_EQ(error->code(), ErrorCode::usage);
}

}  // namespace
}  // namespace weightloom
