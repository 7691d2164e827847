// Targets that LoadSpecs make: of which tensors, over which ranks, and what is refused.
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "weightloom/base/error_testing.h"
#include "weightloom/base/temporary_folder_testing.h"
#include "weightloom/plan/conversion.h"
#include "weightloom/plan/interpret.h"
#include "weightloom/plan/tiny_checkpoint_testing.h"
#include "weightloom/sharding/load_specs_json.h"

namespace weightloom::testing {
namespace {

using ::testing::HasSubstr;

const std::string kExperts = "model.layers.0.block_sparse_moe.experts.";

// Two experts of w1 and w3 of 6 rows of 4 each.
const std::string kFused = R"([{"name": "w1w3", "global_hf_keys": [")" + kExperts +
                           R"(0.w1.weight", ")" + kExperts + R"(0.w3.weight", ")" + kExperts +
                           R"(1.w1.weight", ")" + kExperts + R"(1.w3.weight"],
  "global_shape": [24, 4], "fused_dim": 0, "shards": [SHARDS]}])";

std::string fused(const std::string& shards) {
  std::string text = kFused;
  return text.replace(text.find("SHARDS"), 6, shards);
}

class ConversionSpecsTest : public ::testing::Test {
 protected:
  ConversionSpecsTest() { write_folder(at("m"), hub_files()); }

  std::string at(const std::string& name) const { return folder_ / name; }

  Conversion plan(const std::string& specs, const std::string& mesh = "",
                  std::optional<Side> to = std::nullopt) const {
    Selection selection;
    selection.load_specs = parse_load_specs(specs, "s.json");
    if (!mesh.empty()) selection.meshes = MeshSet::parse(mesh);
    selection.to = to;
    return plan_conversion(system_calls(), Checkpoint::open(system_calls(), at("m")), selection,
                           Registry::built_in());
  }

  std::string refusal(const std::string& specs, const std::string& mesh = "") const {
    const auto error = weightloom::refusal_of([&] {
      const Conversion conversion = plan(specs, mesh);
      if (conversion.is_refused(true)) throw weightloom::refusal_of(conversion.findings, true);
    });
    return error ? error->what() : "";
  }

  TemporaryFolder folder_;
};

std::string content(const std::string& name, const Shape& shape) {
  return content_of({name, DType::BF16, shape});
}

/// The bytes that rank `rank` holds of the only target.
std::string bytes_of(const Conversion& whole, int64_t rank) {
  const Conversion conversion = for_ranks(whole, std::span(&rank, 1));
  const auto made = interpret(conversion.program, [](const ProgramSource& source) {
    const std::string text = content_of({source.name, source.dtype, source.shape});
    const auto* first = reinterpret_cast<const std::byte*>(text.data());
    return Bytes(first, first + text.size());
  });
  const Bytes& bytes = made.at(0);
  return std::string(reinterpret_cast<const char*>(bytes.data()), bytes.size());
}

TEST_F(ConversionSpecsTest, KeysArePutTogetherAndCutAlongTheMesh) {
  const Conversion whole =
      plan(fused(R"({"dim": 0, "axis": "ep"}, {"dim": 0, "axis": "fsdp"})"), "fsdp=4,ep=2");
  EXPECT_FALSE(whole.is_refused(true));
  // ep 1 has expert 1's w1 and w3: 12 rows, of which fsdp 1 has rows 3 to 5.
  EXPECT_EQ(bytes_of(whole, 3), content(kExperts + "1.w1.weight", {6, 4}).substr(3 * 8, 3 * 8));
  EXPECT_EQ(bytes_of(whole, 4), content(kExperts + "0.w3.weight", {6, 4}).substr(0, 3 * 8));
}

TEST_F(ConversionSpecsTest, SpecsOfOneRankNeedNoMesh) {
  const Conversion whole =
      plan(fused(R"({"dim": 0, "size": 2, "rank": 1}, {"dim": 0, "start": 5, "end": 7})"));
  EXPECT_FALSE(whole.is_refused(true));
  EXPECT_EQ(bytes_of(whole, 0), content(kExperts + "1.w1.weight", {6, 4}).substr(5 * 8) +
                                    content(kExperts + "1.w3.weight", {6, 4}).substr(0, 8));
  const Conversion made = for_all_ranks(whole);
  EXPECT_EQ(made.manifest->meshes.size(), 1);
  EXPECT_EQ(made.manifest->tensors.at(0).shape, (Shape{24, 4}));
}

TEST_F(ConversionSpecsTest, PaddingIsZero) {
  std::string specs = fused(R"({"dim": 0, "axis": "ep"})");
  specs.replace(specs.find("[24, 4]"), 7, R"([32, 4], "origin_shape": [24, 4])");
  EXPECT_EQ(bytes_of(plan(specs, "ep=2"), 1),
            content(kExperts + "1.w1.weight", {6, 4}).substr(4 * 8) +
                content(kExperts + "1.w3.weight", {6, 4}) + std::string(8 * 8, '\0'));
}

TEST_F(ConversionSpecsTest, KeysAreThoseOfTheSideAskedFor) {
  const std::string specs =
      R"([{"name": "packed", "global_hf_keys": ["model.layers.0.mlp.experts.down_proj"],
           "global_shape": [8, 6], "adapter": [{"op": "Flatten", "dim": 0, "sizes": [2, 4]}],
           "shards": [{"dim": 0, "axis": "ep"}]}])";
  const Conversion whole = plan(specs, "ep=4", Side::runtime);
  EXPECT_FALSE(whole.is_refused(true));
  EXPECT_EQ(bytes_of(whole, 3), content(kExperts + "1.w2.weight", {4, 6}).substr(2 * 12));
}

TEST_F(ConversionSpecsTest, WhatDoesNotFitIsRefusedWithNamesAndNumbers) {
  std::string specs = fused("");
  specs.replace(specs.find("1.w3"), 4, "1.w9");
  EXPECT_THAT(refusal(specs), HasSubstr("experts.1.w9.weight' is not among the 9 tensors"));
  specs = fused("");
  specs.replace(specs.find("[24, 4]"), 7, "[28, 4]");
  EXPECT_THAT(refusal(specs), HasSubstr("has shape [6, 4], but the spec, of shape [28, 4] "
                                        "without padding, needs [7, 4]"));
  const std::string twice = R"([
    {"name": "a", "global_hf_keys": ["lm_head.weight"], "global_shape": [5, 4]},
    {"name": "b", "global_hf_keys": ["lm_head.weight"], "global_shape": [5, 4]}])";
  EXPECT_THAT(refusal(twice), HasSubstr("key 'lm_head.weight' is wanted by the LoadSpecs 'a' and "
                                        "'b'"));
  const std::string mixed = R"([{"name": "a", "global_hf_keys": ["lm_head.weight",
    "model.norm.weight"], "global_shape": [10, 4], "fused_dim": 0}])";
  EXPECT_THAT(refusal(mixed), HasSubstr("'model.norm.weight' is F32: one tensor has one dtype"));
}

TEST_F(ConversionSpecsTest, AMeshIsGivenWhereShardsAreAlongAxes) {
  const std::string along = fused(R"({"dim": 0, "axis": "ep"})");
  EXPECT_THAT(refusal(along), HasSubstr("are along axes, and there is no mesh"));
  EXPECT_THAT(refusal(along, "tp=2"), HasSubstr("no mesh of 'tp=2' has the axes 'ep'"));
  EXPECT_THAT(refusal(fused(R"({"dim": 0, "start": 0, "end": 1})"), "ep=2"),
              HasSubstr("are those of one rank, and a mesh is given"));
  EXPECT_THAT(refusal(fused(R"({"dim": 0, "axis": "ep", "interleave": 5})"), "ep=2"),
              HasSubstr("24 rows of dim 0 do not divide into 5 stripes for 2 ranks"));
}

TEST_F(ConversionSpecsTest, TensorsThatNoSpecNamesAreNotLetPassUnasked) {
  const Conversion conversion = plan(fused(""));
  EXPECT_TRUE(conversion.is_refused(false));
  EXPECT_FALSE(conversion.is_refused(true));
}

}  // namespace
}  // namespace weightloom::testing
