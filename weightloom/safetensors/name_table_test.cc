#include "weightloom/safetensors/name_table.h"

#include <string>
#include <vector>

#include <gtest/gtest.h>

namespace weightloom {
namespace {

TEST(NameTable, AnEmptyTableFindsNothing) {
  auto no_name = [](int32_t) -> std::string_view { return ""; };
  EXPECT_EQ(NameTable().find("a", no_name), std::nullopt);
  EXPECT_EQ(NameTable(0).find("a", no_name), std::nullopt);
}

TEST(NameTable, FindsEachNameOfManyAndNoOther) {
  std::vector<std::string> names;
  for (int i = 0; i < 3001; ++i) names.push_back("layers." + std::to_string(i) + ".weight");
  auto name_at = [&](int32_t i) -> std::string_view { return names[static_cast<size_t>(i)]; };
  NameTable table(names.size());
  for (size_t i = 0; i < names.size(); ++i) {
    ASSERT_EQ(table.insert(names[i], static_cast<int32_t>(i), name_at), std::nullopt);
  }
  for (size_t i = 0; i < names.size(); ++i) {
    EXPECT_EQ(table.find(names[i], name_at), static_cast<int32_t>(i));
    EXPECT_EQ(table.find(names[i] + "x", name_at), std::nullopt);
  }
}

TEST(NameTable, ASecondInsertGivesTheFirstPosition) {
  std::vector<std::string> names = {"a", std::string("a\0", 2), "", "a"};
  auto name_at = [&](int32_t i) -> std::string_view { return names[static_cast<size_t>(i)]; };
  NameTable table(names.size());
  EXPECT_EQ(table.insert(names[0], 0, name_at), std::nullopt);
  EXPECT_EQ(table.insert(names[1], 1, name_at), std::nullopt);
  EXPECT_EQ(table.insert(names[2], 2, name_at), std::nullopt);
  EXPECT_EQ(table.insert(names[3], 3, name_at), 0);
}

}  // namespace
}  // namespace weightloom
