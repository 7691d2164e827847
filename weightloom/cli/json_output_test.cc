#include "weightloom/cli/json_output.h"

#include <vector>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

namespace weightloom::cli {
namespace {

TEST(JsonOutputTest, PutsCommasBetweenValuesOnly) {
  JsonWriter json;
  json.begin_object().field("a", int64_t{1}).key("list").begin_array();
  json.value("x").begin_object().end_object().begin_array().end_array().end_array();
  json.field("yes", true).field("half", 0.5).end_object();
  EXPECT_EQ(std::move(json).finish(), R"({"a":1,"list":["x",{},[]],"yes":true,"half":0.5})"
                                      "\n");
}

TEST(JsonOutputTest, AShapeIsAnArray) {
  JsonWriter json;
  json.value(std::vector<int64_t>{2, 3});
  EXPECT_EQ(std::move(json).finish(), "[2,3]\n");
}

TEST(JsonOutputTest, AnyStringComesBackAsItWas) {
  for (std::string text : {"", "plain.name", "quote\"back\\slash", "new\nline\x01\x1b", "层.é"}) {
    JsonWriter json;
    json.begin_object().field(text, text).end_object();
    const auto parsed = nlohmann::json::parse(std::move(json).finish());
    ASSERT_TRUE(parsed.contains(text)) << text;
    EXPECT_EQ(parsed[text], text);
  }
}

TEST(JsonOutputTest, BytesThatAreNoUtf8AreReplaced) {
  JsonWriter json;
  json.value("a\xff.bin");
  EXPECT_EQ(std::move(json).finish(), "\"a\xEF\xBF\xBD.bin\"\n");
}

}  // namespace
}  // namespace weightloom::cli
