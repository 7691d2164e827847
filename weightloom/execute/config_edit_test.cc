#include <gtest/gtest.h>

#include "weightloom/execute/config_edit_internal.h"

namespace weightloom {
namespace {

TEST(ConfigEditTest, TheDtypeChangesAndEverythingElseStaysByteForByte) {
  EXPECT_EQ(config_with_dtype("{\n  \"b\": NaN,\t\"torch_dtype\": \"bfloat16\",\n\"a\" : "
                              "[-Infinity, \"dtype\", \"float32\"]}\n",
                              DType::F32),
            "{\n  \"b\": NaN,\t\"torch_dtype\": \"float32\",\n\"a\" : "
            "[-Infinity, \"dtype\", \"float32\"]}\n");
}

TEST(ConfigEditTest, SubConfigsChangeTooButNotThoseOfQuantization) {
  EXPECT_EQ(config_with_dtype(R"({"text_config": {"x": {}, "dtype": "float32"}, "l": [{"dtype": )"
                              R"("half"}], "quantization_config": {"dtype": "float16", "s": )"
                              R"({"dtype": "float16"}}, "dtype": "float64"})",
                              DType::BF16),
            R"({"text_config": {"x": {}, "dtype": "bfloat16"}, "l": [{"dtype": )"
            R"("bfloat16"}], "quantization_config": {"dtype": "float16", "s": )"
            R"({"dtype": "float16"}}, "dtype": "bfloat16"})");
}

TEST(ConfigEditTest, TorchPrefixesStay) {
  EXPECT_EQ(config_with_dtype(R"({"dtype": "torch.float32"})", DType::F16),
            R"({"dtype": "torch.float16"})");
}

TEST(ConfigEditTest, WhatNamesNoCastableTypeStays) {
  for (const std::string text : {R"({"dtype": "auto"})", R"({"dtype": null, "x": "float32"})",
                                 R"({"dtype": "float8_e4m3fn"})", R"({"dtype": {"x": "float32"}})",
                                 R"({"dtype": ["float32"]})", R"({"my_dtype": "float32"})",
                                 R"({"a\"dtype": "float32", "b\\\\": "dtype"})", "{}", ""}) {
    EXPECT_EQ(config_with_dtype(text, DType::BF16), text);
  }
}

}  // namespace
}  // namespace weightloom
