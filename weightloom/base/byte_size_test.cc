#include "weightloom/base/byte_size.h"

#include <gtest/gtest.h>

#include "weightloom/base/error_testing.h"

namespace weightloom {
namespace {

TEST(ParseByteSize, ReadsPlainNumbersAsBytes) {
  EXPECT_EQ(parse_byte_size("1"), 1);
  EXPECT_EQ(parse_byte_size("123"), 123);
  EXPECT_EQ(parse_byte_size("7B"), 7);
  EXPECT_EQ(parse_byte_size("9223372036854775807"), INT64_MAX);
}

TEST(ParseByteSize, TellsDecimalFromBinaryUnits) {
  EXPECT_EQ(parse_byte_size("5GB"), 5'000'000'000);
  EXPECT_EQ(parse_byte_size("3kb"), 3'000);
  EXPECT_EQ(parse_byte_size("2 TB"), 2'000'000'000'000);
  EXPECT_EQ(parse_byte_size("1GiB"), 1'073'741'824);
  EXPECT_EQ(parse_byte_size("1mib"), 1'048'576);
}

TEST(ParseByteSize, TakesFractionsExactly) {
  EXPECT_EQ(parse_byte_size("1.1GB"), 1'100'000'000);
  EXPECT_EQ(parse_byte_size("0.5KiB"), 512);
  EXPECT_EQ(parse_byte_size("1.9999B"), 1);
  EXPECT_EQ(parse_byte_size("0.3333333333333333333333TB"), 333'333'333'333);
}

TEST(ParseByteSize, RefusesWhatIsNoPositiveSize) {
  for (auto text : {"", "0", "0GB", "0.4", "-1", "GB", "1.", ".5GB", "5XB", "1e9", "1 G B", " 1",
                    "9223372036854775808", "9223372036854775807KB", "9000000.9TiB"}) {
    auto error = refusal_of([&] { parse_byte_size(text); });
    ASSERT_TRUE(error) << text;
    EXPECT_EQ(error->code(), ErrorCode::usage) << text;
  }
}

TEST(FormatByteSize, UsesBinaryUnitsAndAtMostFourDigits) {
  EXPECT_EQ(format_byte_size(0), "0 B");
  EXPECT_EQ(format_byte_size(812), "812 B");
  EXPECT_EQ(format_byte_size(1023), "1023 B");
  EXPECT_EQ(format_byte_size(1024), "1.00 KiB");
  EXPECT_EQ(format_byte_size(3'650'722'202), "3.40 GiB");
  EXPECT_EQ(format_byte_size(104'752'742), "99.90 MiB");
  EXPECT_EQ(format_byte_size(104'857'600), "100.0 MiB");
  EXPECT_EQ(format_byte_size(1'047'552), "1023 KiB");
  EXPECT_EQ(format_byte_size(1'048'575), "1.00 MiB");
  EXPECT_EQ(format_byte_size(INT64_MAX), "8.00 EiB");
}

}  // namespace
}  // namespace weightloom
