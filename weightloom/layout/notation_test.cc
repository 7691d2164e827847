#include "weightloom/layout/notation.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "weightloom/base/error.h"

namespace weightloom {
namespace {

using ::testing::ElementsAre;

void expect_refused(const std::string& text, ErrorCode code, const std::string& message) {
  try {
    parse_layout(text);
    ADD_FAILURE() << "no error for " << text << "; expected: " << message;
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), code) << text;
    EXPECT_THAT(error.what(), ::testing::HasSubstr(message));
  }
}

TEST(NotationTest, TextsInNormalFormComeBackUnchanged) {
  for (const char* text : {
           "():[0<-s0+0]",
           "(0):[]",
           "(2, 0, 3):[]",
           "(2, 6):[0<-s0+0 (2:6<-3, 3:1<-1); 3<-s1+0 (2:6<-3, 3:1<-1)]",
           "(4):[0<-s0+0 (3:1<-1); 3<-pad(0)]",
           "(4):[0<-pad(-7) (4:1)]",
           "(9223372036854775807):[9223372036854775806<-s2147483647+9223372036854775807]",
       }) {
    EXPECT_EQ(to_string(parse_layout(text)), text);
  }
}

TEST(NotationTest, ReadsEveryField) {
  const Layout layout = parse_layout("(2, 30):[4<-s7+8 (2:30<-11, 3:2<-1)]");
  EXPECT_THAT(layout.shape(), ElementsAre(2, 30));
  ASSERT_EQ(layout.regions().size(), 1U);
  const Region& region = layout.regions()[0];
  EXPECT_EQ(region.source, 7);
  EXPECT_EQ(region.source_offset, 8);
  EXPECT_EQ(region.target_offset, 4);
  EXPECT_THAT(region.axes, ElementsAre(Axis{2, 30, 11}, Axis{3, 2, 1}));
}

TEST(NotationTest, SpacesAndLinesDoNotMatter) {
  EXPECT_EQ(to_string(parse_layout(" ( 4 ) : [ 0 <- s0 + 0 ( 3 : 1 <- 1 ) ;\n 3 <- pad ( 0 ) ] ")),
            "(4):[0<-s0+0 (3:1<-1); 3<-pad(0)]");
}

TEST(NotationTest, MalformedTextIsRefusedWithItsPosition) {
  expect_refused("", ErrorCode::format, "position 0: found the end, needed '('");
  expect_refused("(2", ErrorCode::format, "position 2: found the end, needed ')'");
  expect_refused("(2;3)", ErrorCode::format, "position 2: found ';3)', needed ')'");
  expect_refused("(x):[]", ErrorCode::format, "position 1: found 'x):[]', needed a 64-bit number");
  expect_refused("(2)[]", ErrorCode::format, "position 3: found '[]', needed ':'");
  expect_refused("(2):[0-s0+0]", ErrorCode::format, "position 6: found '-s0+0]', needed '<-'");
  expect_refused("(2):[0<-t0+0]", ErrorCode::format, "position 8: found 't0+0]', needed 's'");
  expect_refused("(2):[0<-s0 (2:1<-1)]", ErrorCode::format, "position 11");
  expect_refused("(2):[0<-s0+0 (2:1)]", ErrorCode::format, "position 17: found ')]', needed '<-'");
  expect_refused("(2):[0<-pad(0) (2:1<-1)]", ErrorCode::format, "position 19");
  expect_refused("(2):[0<-s0+0 (2:1<-1)] more", ErrorCode::format, "needed the end");
  expect_refused("(2):[0<-s2147483648+0]", ErrorCode::format, "needed a source number");
  expect_refused("(2):[0<-s-1+0]", ErrorCode::format, "position 9: found '-1+0]'");
  expect_refused("(99999999999999999999):[]", ErrorCode::format, "needed a 64-bit number");
}

TEST(NotationTest, RegionsThatBreakTheInvariantAreRefused) {
  expect_refused("(2):[0<-s0+0 (3:1<-1)]", ErrorCode::usage, "ends outside");
  expect_refused("(9):[0<-s0+0 (2:1<-1, 3:1<-1)]", ErrorCode::usage, "not nested");
  expect_refused("(9):[0<-s0+0 (3:-1<-1)]", ErrorCode::usage, "negative number");
  expect_refused("(9):[0<-s0+0 (0:1<-1)]", ErrorCode::usage, "an extent below 1");
  expect_refused("(-9):[]", ErrorCode::usage, "negative dim");
}

}  // namespace
}  // namespace weightloom
