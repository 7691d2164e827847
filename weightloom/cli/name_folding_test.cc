#include "weightloom/cli/name_folding.h"

#include <gtest/gtest.h>

namespace weightloom::cli {
namespace {

std::string fold(const std::vector<std::string>& names) {
  FoldedName folded(number_name(names.front()).skeleton);
  for (const std::string& name : names) folded.add(number_name(name).numbers);
  EXPECT_EQ(folded.count(), static_cast<int64_t>(names.size()));
  return folded.text();
}

TEST(NameFoldingTest, OneNameStaysAsItIs) {
  for (std::string name : {"", "a", "a.1.b", "1", ".", "a..2", "layer1.w", "a.007.b",
                           "a.99999999999999999999.b", "a.-1.b", "层.0"}) {
    EXPECT_EQ(fold({name}), name);
  }
}

TEST(NameFoldingTest, ConsecutiveNumbersAreARange) {
  EXPECT_EQ(fold({"l.0.e.0.w", "l.0.e.1.w", "l.1.e.0.w", "l.1.e.1.w"}), "l.{0..1}.e.{0..1}.w");
  EXPECT_EQ(fold({"l.10.w", "l.11.w", "l.9.w"}), "l.{9..11}.w");
}

TEST(NameFoldingTest, EveryOtherNumberHasAStep) {
  EXPECT_EQ(fold({"l.1.w", "l.3.w", "l.5.w"}), "l.{1..5..2}.w");
  EXPECT_EQ(fold({"l.1.w", "l.3.w"}), "l.{1,3}.w");
}

TEST(NameFoldingTest, GapsAreShown) {
  EXPECT_EQ(fold({"l.0.w", "l.1.w", "l.2.w", "l.61.w"}), "l.{0..2,61}.w");
}

TEST(NameFoldingTest, ManyGapsAreCutShort) {
  std::vector<std::string> names;
  for (int i : {0, 2, 3, 7, 9, 12, 20, 22}) names.push_back("l." + std::to_string(i));
  EXPECT_EQ(fold(names), "l.{0,2..3,7,9,12,20,…,22}");
}

TEST(NameFoldingTest, OnlyWholeComponentsAreNumbers) {
  EXPECT_EQ(number_name("model.layer1.2.w3").numbers, std::vector<int64_t>{2});
}

}  // namespace
}  // namespace weightloom::cli
