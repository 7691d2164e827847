#include "weightloom/plan/dump.h"

#include <gtest/gtest.h>

#include "weightloom/layout/operations.h"
#include "weightloom/plan/compile.h"

namespace weightloom {
namespace {

TEST(DumpTest, AProgramIsALineForEachSourceAndRegion) {
  const std::vector<Layout> parts{identity(0, {2, 3}), identity(1, {2, 3})};
  const Compiled compiled =
      compile({{"model.safetensors", "/somewhere/model.safetensors", {}}},
              {{"w1", DType::BF16, {2, 3}, 0, 200, 12}, {"w3", DType::BF16, {2, 3}, 0, 212, 12}},
              {{"gate_up", DType::BF16, stack(parts, 0)}});
  EXPECT_EQ(dump(compiled.program),
            "source 0 'w1' BF16 [2, 3] file 0 'model.safetensors' [200, 212)\n"
            "source 1 'w3' BF16 [2, 3] file 0 'model.safetensors' [212, 224)\n"
            "target 'gate_up' BF16 [2, 2, 3]\n"
            "  0<-s0+0 (12:1<-1)\n"
            "  12<-s1+0 (12:1<-1)\n");
}

TEST(DumpTest, ACastSaysWhatItCastsFrom) {
  const std::vector<Layout> parts{identity(0, {3}), identity(1, {3})};
  const Compiled compiled = compile(
      {{"f", "f", {}}}, {{"a", DType::F32, {3}, 0, 8, 12}, {"b", DType::F16, {3}, 0, 20, 6}},
      {{"t", DType::F16, concat(parts, 0)}}, [](const std::string&) { return true; });
  EXPECT_EQ(dump(compiled.program),
            "source 0 'a' F32 [3] file 0 'f' [8, 20)\n"
            "source 1 'b' F16 [3] file 0 'f' [20, 26)\n"
            "target 't' F16 [6]\n"
            "  0<-s0+0 (3:2<-4) cast F32\n"
            "  6<-s1+0 (6:1<-1)\n");
}

TEST(DumpTest, AMemberSaysOfWhichFamilyItIs) {
  const CopyProgram program(
      {{"f", "f", {}}}, {{"a", DType::U8, {4}, 0, 8, 4}},
      {{"t", DType::U8, {4}, 4, {{0, 0, 0, 0, {{4, 1, 1}}}}, true, false, 7}});
  EXPECT_EQ(dump(program),
            "source 0 'a' U8 [4] file 0 'f' [8, 12)\n"
            "target 't' U8 [4] family 7\n"
            "  0<-s0+0 (4:1<-1)\n");
}

}  // namespace
}  // namespace weightloom
