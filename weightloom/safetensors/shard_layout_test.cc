#include "weightloom/safetensors/shard_layout.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "weightloom/base/error_testing.h"
#include "weightloom/base/temporary_folder_testing.h"
#include "weightloom/safetensors/safetensors_testing.h"

namespace weightloom {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

const Metadata kPt = {{"format", "pt"}};

/// "file: names; file: names" with the names in file order.
std::string describe(const ShardLayout& layout) {
  std::string text;
  for (const auto& file : layout.files()) {
    text += (text.empty() ? "" : "; ") + file.name + ":";
    for (const auto& tensor : file.header.tensors()) text += " " + tensor.name;
  }
  return text;
}

TEST(ShardLayoutBySize, PutsAllIntoOneFileWhenItFits) {
  std::vector<TensorSpec> tensors = {{"b", DType::I8, {4}}, {"a", DType::I8, {6}}};
  auto layout = ShardLayout::by_size(tensors, 10, kPt);
  EXPECT_EQ(describe(layout), "model.safetensors: a b");
  EXPECT_EQ(layout.index(), std::nullopt);
  EXPECT_EQ(layout.files()[0].header.metadata(), kPt);
  int64_t begin = layout.files()[0].header.data_begin_bytes();
  EXPECT_EQ(layout.places()[0].offset_bytes, begin + 6);
  EXPECT_EQ(layout.places()[1].offset_bytes, begin);
  EXPECT_EQ(layout.total_file_bytes(), begin + 10);
}

TEST(ShardLayoutBySize, FillsShardsGreedilyInNameOrder) {
  std::vector<TensorSpec> tensors = {
      {"d", DType::I8, {4}}, {"a", DType::I8, {6}}, {"c", DType::F4, {8}}, {"b", DType::I8, {4}}};
  auto layout = ShardLayout::by_size(tensors, 10, {});
  EXPECT_EQ(describe(layout),
            "model-00001-of-00002.safetensors: a b; model-00002-of-00002.safetensors: d c");
  EXPECT_EQ(layout.places()[3].file, 0);
  EXPECT_EQ(layout.places()[2].file, 1);
  ASSERT_TRUE(layout.index());
  EXPECT_EQ(layout.index()->first, "model.safetensors.index.json");
  EXPECT_EQ(layout.index()->second, R"({
  "metadata": {
    "total_parameters": 22,
    "total_size": 18
  },
  "weight_map": {
    "a": "model-00001-of-00002.safetensors",
    "b": "model-00001-of-00002.safetensors",
    "c": "model-00002-of-00002.safetensors",
    "d": "model-00002-of-00002.safetensors"
  }
}
)");
}

TEST(ShardLayoutBySize, GivesALargerTensorAShardOfItsOwn) {
  std::vector<TensorSpec> tensors = {
      {"a", DType::I8, {1}}, {"b", DType::I8, {99}}, {"c", DType::I8, {0}}, {"d", DType::I8, {1}}};
  EXPECT_EQ(describe(ShardLayout::by_size(tensors, 10, {})),
            "model-00001-of-00003.safetensors: a; model-00002-of-00003.safetensors: b; "
            "model-00003-of-00003.safetensors: c d");
}

TEST(ShardLayoutBySize, WritesNoTensorsAsOneEmptyFile) {
  EXPECT_EQ(describe(ShardLayout::by_size({}, 10, {})), "model.safetensors:");
}

TEST(ShardLayoutBySize, RefusesNamesGivenTwice) {
  std::vector<TensorSpec> tensors = {{"a", DType::I8, {9}}, {"a", DType::I8, {9}}};
  auto error = refusal_of([&] { ShardLayout::by_size(tensors, 10, {}); });
  ASSERT_TRUE(error);
  EXPECT_EQ(error->code(), ErrorCode::usage);
  EXPECT_THAT(error->what(), HasSubstr("'a'"));
}

TEST(ShardLayoutBySize, RefusesTotalsThatOverflow) {
  std::vector<TensorSpec> tensors = {{"a", DType::I8, {INT64_MAX / 8}}, {"b", DType::I8, {9}}};
  auto error = refusal_of([&] { ShardLayout::by_size(tensors, 10, {}); });
  ASSERT_TRUE(error);
  EXPECT_EQ(error->code(), ErrorCode::usage);
}

TEST(ShardLayoutOneFile, TakesTheGivenName) {
  std::vector<TensorSpec> tensors = {{"b", DType::I8, {4}}, {"a", DType::I8, {6}}};
  auto layout = ShardLayout::one_file(tensors, "x.safetensors", {});
  EXPECT_EQ(describe(layout), "x.safetensors: a b");
  EXPECT_EQ(layout.index(), std::nullopt);
}

TEST(ShardLayoutLikeIndex, FollowsTheIndexAndWritesNoEmptyShard) {
  std::vector<TensorSpec> tensors = {{"a", DType::I8, {1}}, {"b", DType::I8, {2}}};
  Index like{{{"b", "one"}, {"gone", "two"}, {"a", "d/three"}}, {}, {}};
  auto layout = ShardLayout::like_index(tensors, like, {});
  EXPECT_EQ(describe(layout), "d/three: a; one: b");
  EXPECT_EQ(layout.places()[0].file, 0);
  EXPECT_EQ(layout.places()[1].file, 1);
  EXPECT_THAT(layout.index()->second, HasSubstr(R"("a": "d/three",)"));
}

TEST(ShardLayoutLikeIndex, NamesAllTensorsThatStandNotInTheIndex) {
  std::vector<TensorSpec> tensors = {
      {"a", DType::I8, {1}}, {"b", DType::I8, {2}}, {"c", DType::I8, {2}}};
  Index like{{{"b", "one"}}, {}, {}};
  auto error = refusal_of([&] { ShardLayout::like_index(tensors, like, {}); });
  ASSERT_TRUE(error);
  EXPECT_EQ(error->code(), ErrorCode::usage);
  EXPECT_STREQ(error->what(), "2 tensors are not in the index to follow: 'a', 'c'");
  EXPECT_EQ(error->findings().size(), 2u);
}

TEST(ShardLayoutVerbatim, KeepsFilesAndIndexText) {
  std::vector<TensorSpec> tensors = {{"a", DType::I8, {1}}, {"b", DType::I8, {2}}};
  std::string json =
      R"({ "b":{"dtype":"I8","shape":[2],"data_offsets":[0,2]}, "a":{"dtype":"I8","shape":[1],"data_offsets":[2,3]}})";
  auto size = static_cast<int64_t>(json.size());
  std::vector<ShardFile> files = {{"x", Header::parse(json, 8 + size + 3, "x")}};
  auto layout = ShardLayout::verbatim(tensors, files, std::pair("i", "text"));
  EXPECT_EQ(layout.files()[0].header.json(), json);
  EXPECT_EQ(layout.places()[0].offset_bytes, 8 + size + 2);
  EXPECT_EQ(layout.index()->second, "text");
}

TEST(ShardLayoutVerbatim, RefusesOtherTensors) {
  std::vector<TensorSpec> tensors = {
      {"a", DType::I8, {1}}, {"b", DType::I8, {2}}, {"c", DType::I8, {3}}, {"d", DType::I8, {3}}};
  std::vector<ShardFile> files = {
      {"x", Header::lay_out({{"a", DType::I8, {1}}, {"b", DType::U8, {2}}}, {})},
      {"y", Header::lay_out({{"d", DType::I8, {3}}, {"e", DType::I8, {3}}}, {})},
      {"z", Header::lay_out({{"d", DType::I8, {3}}}, {})}};
  auto error = refusal_of([&] { ShardLayout::verbatim(tensors, files, std::nullopt); });
  ASSERT_TRUE(error);
  EXPECT_EQ(error->code(), ErrorCode::usage);
  EXPECT_STREQ(error->what(),
               "4 tensors do not stand once and alike in the given headers: 'b', 'c', 'd', 'e'");
}

class ShardLayoutLikeSource : public ::testing::Test {
 protected:
  /// Two shards: "b" and "a" in the first, "c" in the second; an index with a text of its own.
  ShardLayoutLikeSource() {
    write_safetensors(folder_ / "one.safetensors",
                      {{"b", DType::I8, {2}, "bb"}, {"a", DType::I8, {1}, "a"}});
    write_safetensors(folder_ / "two.safetensors", {{"c", DType::I8, {3}, "ccc"}});
    write_file(folder_ / "model.safetensors.index.json", kIndexText);
  }

  Checkpoint source(const std::string& name = ".") const {
    return Checkpoint::open(system_calls(), folder_ / name);
  }
  std::optional<ShardLayout> like(const std::vector<TensorSpec>& tensors,
                                  const std::vector<std::string>& names) const {
    return ShardLayout::like_source(tensors, source(), names);
  }

  static constexpr const char* kIndexText =
      R"({ "weight_map": {"a": "one.safetensors", "b": "one.safetensors", "c": "two.safetensors"} })";
  TemporaryFolder folder_;
};

TEST_F(ShardLayoutLikeSource, KeepsFilesHeadersAndIndexText) {
  const auto layout =
      like({{"c", DType::I8, {3}}, {"a", DType::I8, {1}}, {"b", DType::I8, {2}}}, {"a", "b", "c"});
  ASSERT_TRUE(layout);
  EXPECT_EQ(describe(*layout), "one.safetensors: b a; two.safetensors: c");
  EXPECT_EQ(layout->files()[0].header.json(), source().files()[0].header.json());
  EXPECT_EQ(layout->index()->second, kIndexText);
  EXPECT_EQ(layout->places()[0].file, 1);
  EXPECT_EQ(layout->places()[1].offset_bytes, source().find("a")->offset_bytes);
}

TEST_F(ShardLayoutLikeSource, NewNamesChangeTheirFilesHeaderAndTheIndex) {
  const auto layout =
      like({{"x", DType::I8, {1}}, {"b", DType::I8, {2}}, {"c", DType::I8, {3}}}, {"x", "b", "c"});
  ASSERT_TRUE(layout);
  EXPECT_EQ(describe(*layout), "one.safetensors: b x; two.safetensors: c");
  EXPECT_EQ(layout->files()[1].header.json(), source().files()[1].header.json());
  EXPECT_EQ(layout->index()->first, "model.safetensors.index.json");
  EXPECT_THAT(layout->index()->second, HasSubstr(R"("x": "one.safetensors")"));
}

TEST_F(ShardLayoutLikeSource, OtherTensorsThanTheSourcesGiveNothing) {
  const std::vector<std::string> names = {"a", "b", "c"};
  EXPECT_FALSE(like({{"a", DType::I8, {1}}, {"b", DType::I8, {2}}}, names));
  EXPECT_FALSE(like({{"a", DType::I8, {1}}, {"b", DType::I8, {2}}, {"c", DType::U8, {3}}}, names));
  EXPECT_FALSE(
      like({{"a", DType::I8, {1}}, {"b", DType::I8, {2}}, {"c", DType::I8, {1, 3}}}, names));
}

TEST_F(ShardLayoutLikeSource, OneFileIsTheWholeModel) {
  const Checkpoint one = source("two.safetensors");
  const std::vector<TensorSpec> tensors = {{"c", DType::I8, {3}}};
  const std::vector<std::string> names = {"c"};
  const auto layout = ShardLayout::like_source(tensors, one, names);
  EXPECT_EQ(describe(*layout), "model.safetensors: c");
  EXPECT_EQ(layout->files()[0].header.json(), one.files()[0].header.json());
  EXPECT_EQ(layout->index(), std::nullopt);
}

}  // namespace
}  // namespace weightloom
