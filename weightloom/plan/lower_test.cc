#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "weightloom/layout/notation.h"
#include "weightloom/layout/operations.h"
#include "weightloom/plan/lower_internal.h"

namespace weightloom {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::vector<std::string> lowered(const Layout& layout, DType dtype) {
  std::vector<std::string> text;
  for (const Region& region : lower_to_bytes(layout, dtype).regions) {
    text.push_back(to_string(region));
  }
  return text;
}

std::string refusal(const Layout& layout, DType dtype) {
  return lower_to_bytes(layout, dtype).refusal.value_or("");
}

TEST(LowerTest, AWholeTensorIsOneRunOfBytes) {
  EXPECT_THAT(lowered(identity(0, {2, 3}), DType::BF16), ElementsAre("0<-s0+0 (12:1<-1)"));
  EXPECT_THAT(lowered(identity(0, {2, 3}), DType::F64), ElementsAre("0<-s0+0 (48:1<-1)"));
  EXPECT_THAT(lowered(identity(0, {2, 3}), DType::BOOL), ElementsAre("0<-s0+0 (6:1<-1)"));
}

TEST(LowerTest, AScalarIsItsBytes) {
  EXPECT_THAT(lowered(identity(4, {}), DType::F32), ElementsAre("0<-s4+0 (4:1<-1)"));
}

TEST(LowerTest, ATransposeKeepsElementsWhole) {
  EXPECT_THAT(lowered(transpose(identity(0, {2, 3}), 0, 1), DType::BF16),
              ElementsAre("0<-s0+0 (3:4<-2, 2:2<-6, 2:1<-1)"));
}

TEST(LowerTest, NeighboursThatOneRegionCanSayAreJoined) {
  const Layout halves = concat(
      std::vector<Layout>{slice(identity(0, {4}), 0, 0, 2), slice(identity(0, {4}), 0, 2, 4)}, 0);
  EXPECT_THAT(lowered(halves, DType::I16), ElementsAre("0<-s0+0 (8:1<-1)"));
}

std::vector<std::string> lowered_from(const Layout& layout, DType dtype, DType from) {
  std::vector<std::string> text;
  for (const Region& region :
       lower_to_bytes(layout, dtype, [from](SourceId) { return from; }).regions) {
    text.push_back(to_string(region));
  }
  return text;
}

TEST(LowerTest, ACastCountsElementsWithEachSidesOwnWidth) {
  EXPECT_THAT(lowered_from(identity(0, {2, 3}), DType::BF16, DType::F32),
              ElementsAre("0<-s0+0 (6:2<-4)"));
  EXPECT_THAT(lowered_from(transpose(identity(0, {2, 3}), 0, 1), DType::F64, DType::F16),
              ElementsAre("0<-s0+0 (3:16<-2, 2:8<-6)"));
  EXPECT_THAT(lowered_from(slice(identity(0, {4, 3}), 0, 1, 3), DType::BF16, DType::F32),
              ElementsAre("0<-s0+12 (6:2<-4)"));
  EXPECT_THAT(lowered_from(identity(0, {}), DType::BF16, DType::F32), ElementsAre("0<-s0+0"));
}

TEST(LowerTest, OnlySourcesOfAnotherDTypeAreCastAndPadsAreBytes) {
  const std::vector<Layout> parts{identity(0, {2}), identity(1, {2})};
  const Layout layout = pad(concat(parts, 0), 0, 0, 1);
  const auto dtypes = [](SourceId source) { return source == 0 ? DType::F32 : DType::BF16; };
  std::vector<std::string> text;
  for (const Region& region : lower_to_bytes(layout, DType::BF16, dtypes).regions) {
    text.push_back(to_string(region));
  }
  EXPECT_THAT(text, ElementsAre("0<-s0+0 (2:2<-4)", "4<-s1+0 (4:1<-1)", "8<-pad(0) (2:1)"));
}

TEST(LowerTest, FourBitRowsOfEvenLengthFallOnBytes) {
  EXPECT_THAT(lowered(slice(identity(0, {3, 4}), 0, 1, 2), DType::F4),
              ElementsAre("0<-s0+2 (2:1<-1)"));
  EXPECT_THAT(lowered(slice(identity(0, {3, 4}), 1, 2, 4), DType::F4),
              ElementsAre("0<-s0+1 (3:1<-2)"));
}

TEST(LowerTest, ACutInsideAByteIsRefusedWithTheCut) {
  EXPECT_THAT(refusal(slice(identity(0, {3, 4}), 1, 1, 3), DType::F4),
              HasSubstr("falls inside a byte of F4 (4 bits an element)"));
  EXPECT_THAT(refusal(transpose(identity(0, {2, 2}), 0, 1), DType::F4), HasSubstr("inside a byte"));
  EXPECT_THAT(refusal(slice(identity(0, {8}), 0, 2, 6), DType::F6_E2M3),
              HasSubstr("inside a byte"));
}

TEST(LowerTest, SixBitRunsOfFourElementsAreThreeBytes) {
  EXPECT_THAT(lowered(slice(identity(0, {12}), 0, 4, 8), DType::F6_E3M2),
              ElementsAre("0<-s0+3 (3:1<-1)"));
}

TEST(LowerTest, PadsOfZeroAreBytesOfZeroWhereZeroIsAllZeroBits) {
  EXPECT_THAT(lowered(pad(identity(0, {2}), 0, 0, 3), DType::BF16),
              ElementsAre("0<-s0+0 (4:1<-1)", "4<-pad(0) (6:1)"));
  EXPECT_THAT(refusal(pad(identity(0, {2}), 0, 0, 3, 1), DType::BF16), HasSubstr("padding with 1"));
  EXPECT_THAT(refusal(pad(identity(0, {2}), 0, 0, 3), DType::F8_E8M0), HasSubstr("F8_E8M0"));
}

}  // namespace
}  // namespace weightloom
