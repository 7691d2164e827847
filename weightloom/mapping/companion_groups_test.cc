// Scales follow their weights: what a chain does to a weight's blocks, it does to their scales.
#include <random>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "weightloom/mapping/companion_groups_internal.h"
#include "weightloom/mapping/mapping_testing.h"

namespace weightloom {
namespace {

using ::testing::AllOf;
using testing::Arrays;
using testing::converter;
using testing::counting;
using testing::Dense;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::leaves_of;
using testing::renaming;
using ::testing::SizeIs;

/// Weights whose elements are all different, with scales whose elements say which weight elements
/// they are for: the scale of block (i, j) of tensor t is the value of its first element.
class Scaled {
 public:
  Scaled(int64_t rows, int64_t columns) : block_{rows, columns} {}

  void add(const std::string& name, const Shape& shape) {
    Dense weight = counting(shape, next_);
    next_ += elements(shape);
    Dense scale{{(shape[0] + block_[0] - 1) / block_[0], (shape[1] + block_[1] - 1) / block_[1]},
                {}};
    for (int64_t i = 0; i < scale.shape[0]; ++i) {
      for (int64_t j = 0; j < scale.shape[1]; ++j) {
        const int64_t at = i * block_[0] * shape[1] + j * block_[1];
        scale.values.push_back(weight.values[static_cast<size_t>(at)]);
      }
    }
    for (size_t e = 0; e < weight.values.size(); ++e) {
      const int64_t row = static_cast<int64_t>(e) / shape[1] / block_[0] * block_[0];
      const int64_t column = static_cast<int64_t>(e) % shape[1] / block_[1] * block_[1];
      scale_of_[weight.values[e]] = weight.values[static_cast<size_t>(row * shape[1] + column)];
    }
    arrays_[name] = std::move(weight);
    arrays_[name + "_scale_inv"] = std::move(scale);
  }

  const Arrays& arrays() const { return arrays_; }
  Arrays& arrays() { return arrays_; }

  ModelConfig config() const {
    return ModelConfig::parse("{\"quantization_config\": {\"weight_block_size\": [" +
                                  std::to_string(block_[0]) + ", " + std::to_string(block_[1]) +
                                  "]}}",
                              "config.json");
  }

  /// Every element of a converted weight finds its scale at its own block.
  void expect_scales_fit(const Arrays& made) const {
    int weights = 0;
    for (const auto& [name, weight] : made) {
      const auto scale = made.find(name + "_scale_inv");
      if (scale == made.end()) continue;
      ++weights;
      expect_scale_fits(name, weight, scale->second);
    }
    EXPECT_EQ(2 * weights, std::ssize(made));
  }

 private:
  void expect_scale_fits(const std::string& name, const Dense& weight, const Dense& scale) const {
    const size_t rank = weight.shape.size();
    const int64_t columns = weight.shape[rank - 1];
    const int64_t rows = weight.shape[rank - 2];
    for (size_t e = 0; e < weight.values.size(); ++e) {
      const auto element = static_cast<int64_t>(e);
      const int64_t outer = element / columns / rows;
      const int64_t i = element / columns % rows / block_[0];
      const int64_t j = element % columns / block_[1];
      const int64_t at = (outer * scale.shape[rank - 2] + i) * scale.shape[rank - 1] + j;
      ASSERT_EQ(scale.values.at(static_cast<size_t>(at)), scale_of_.at(weight.values[e]))
          << name << " element " << e;
    }
  }

  std::vector<int64_t> block_;
  Arrays arrays_;
  std::map<int64_t, int64_t> scale_of_;
  int64_t next_ = 0;
};

Arrays apply_to(const Mapping& mapping, const Scaled& scaled) {
  const MappingResult result = apply_mapping(mapping, leaves_of(scaled.arrays()), scaled.config());
  for (const Finding& finding : result.findings) ADD_FAILURE() << finding.message;
  return gather(result, scaled.arrays());
}

std::vector<Finding> findings_of(const Mapping& mapping, const Scaled& scaled) {
  return apply_mapping(mapping, leaves_of(scaled.arrays()), scaled.config()).findings;
}

Mapping experts() {
  return Mapping(
      "m", {converter({".experts.*.w1.weight", ".experts.*.w3.weight"}, {".experts.gate_up_proj"},
                      {make_merge_modulelist(0), make_concatenate(1)})});
}

TEST(Companions, OfExpertsAreStackedAndJoined) {
  Scaled scaled(2, 3);
  for (const char* name : {"l.experts.0.w1.weight", "l.experts.0.w3.weight",
                           "l.experts.1.w1.weight", "l.experts.1.w3.weight"}) {
    scaled.add(name, {4, 7});
  }
  const Arrays made = apply_to(experts(), scaled);
  ASSERT_THAT(made, SizeIs(2));
  EXPECT_EQ(made.at("l.experts.gate_up_proj").shape, (Shape{2, 8, 7}));
  EXPECT_EQ(made.at("l.experts.gate_up_proj_scale_inv").shape, (Shape{2, 4, 3}));
  scaled.expect_scales_fit(made);
}

TEST(Companions, ComeBackWithTheirWeights) {
  Scaled scaled(2, 2);
  for (int e = 0; e < 11; ++e) {
    for (const char* w : {"w1", "w3"}) {
      scaled.add("l.experts." + std::to_string(e) + "." + w + ".weight", {6, 3});
    }
  }
  const auto leaves = leaves_of(scaled.arrays());
  MappingResult there = apply_mapping(experts(), leaves, scaled.config());
  const MappingResult back =
      apply_mapping(experts().reversed(), std::move(there.tensors), scaled.config());
  EXPECT_THAT(back.findings, SizeIs(0));
  EXPECT_EQ(gather(back, scaled.arrays()), scaled.arrays());
}

TEST(Companions, ThatWouldShareABlockAreRefusedWithTheNumbers) {
  Scaled scaled(4, 4);
  scaled.add("l.experts.0.w1.weight", {6, 8});
  scaled.add("l.experts.0.w3.weight", {6, 8});
  const auto found = findings_of(experts(), scaled);
  ASSERT_THAT(found, SizeIs(1));
  EXPECT_EQ(found[0].code, "companion_refused");
  EXPECT_THAT(found[0].message,
              AllOf(HasSubstr("'l.experts.gate_up_proj'"),
                    HasSubstr("6 along dim 1 are not whole blocks of 4"), HasSubstr("[6, 8]")));
}

TEST(Companions, OfALastRaggedPartFollow) {
  Scaled scaled(4, 4);
  scaled.add("a.q.weight", {8, 5});
  scaled.add("a.v.weight", {6, 5});
  const Mapping mapping(
      "m", {converter({"q.weight", "v.weight"}, {"qv.weight"}, {make_concatenate(0, {8, 6})})});
  scaled.expect_scales_fit(apply_to(mapping, scaled));
}

TEST(Companions, FollowSplitsAndSquareTransposes) {
  Scaled scaled(2, 2);
  scaled.add("qkv.weight", {10, 6});
  const Mapping mapping(
      "m", {converter({"qkv.weight"}, {"q.weight", "k.weight", "v.weight"},
                      {make_transpose(0, 1), make_split(1, {4, 4, 2}), make_transpose(0, 1)})});
  scaled.expect_scales_fit(apply_to(mapping, scaled));
}

TEST(Companions, OfBlocksThatWouldTurnAreRefused) {
  Scaled scaled(2, 3);
  scaled.add("w.weight", {6, 6});
  const Mapping mapping("m", {converter({"w.weight"}, {"v.weight"}, {make_transpose(0, 1)})});
  const auto found = findings_of(mapping, scaled);
  ASSERT_THAT(found, SizeIs(1));
  EXPECT_THAT(found[0].message, HasSubstr("would be [3, 2], but [2, 3] are declared"));
}

TEST(Companions, InsideWhoseBlocksRowsMoveAreRefused) {
  Scaled scaled(2, 2);
  scaled.add("w.weight", {8, 4});
  for (const auto& operation :
       {make_interleave(0, false), make_permute_for_rope({.num_heads = 2})}) {
    const Mapping mapping("m", {converter({"w.weight"}, {"v.weight"}, {operation})});
    const auto found = findings_of(mapping, scaled);
    ASSERT_THAT(found, SizeIs(1));
    EXPECT_THAT(found[0].message, HasSubstr("it reorders dim 0 element by element"));
  }
}

TEST(Companions, OfSingleRowsMoveWithTheirRows) {
  Scaled scaled(1, 4);
  scaled.add("w.weight", {8, 4});
  const Mapping mapping(
      "m", {converter({"w.weight"}, {"v.weight"}, {make_permute_for_rope({.num_heads = 2})})});
  scaled.expect_scales_fit(apply_to(mapping, scaled));
}

TEST(Companions, OfWholeDimsStayWhenThatDimIsReordered) {
  MappingRules rules;
  rules.companions = {{"_scale", "", {kWholeDim, 2}}};
  const Mapping mapping("m", {converter({"w"}, {"v"}, {make_interleave(0, false)})}, rules);
  const Arrays arrays = {{"w", counting({4, 4})}, {"w_scale", counting({1, 2}, 100)}};
  const MappingResult result = apply_mapping(mapping, leaves_of(arrays), ModelConfig());
  EXPECT_THAT(result.findings, SizeIs(0));
  EXPECT_EQ(gather(result, arrays).at("v_scale"), arrays.at("w_scale"));
}

TEST(Companions, AreMissedWhenOnlySomeWeightsHaveThem) {
  Scaled scaled(2, 2);
  scaled.add("l.experts.0.w1.weight", {4, 4});
  scaled.add("l.experts.0.w3.weight", {4, 4});
  scaled.arrays().erase("l.experts.0.w3.weight_scale_inv");
  const auto found = findings_of(experts(), scaled);
  ASSERT_THAT(found, SizeIs(1));
  EXPECT_EQ(found[0].code, "missing_source");
  EXPECT_THAT(found[0].message, HasSubstr("'l.experts.0.w3.weight_scale_inv' is missing"));
}

TEST(Companions, OfAnotherShapeThanTheBlocksNeedAreRefused) {
  Scaled scaled(2, 2);
  scaled.add("l.experts.0.w1.weight", {4, 4});
  scaled.add("l.experts.0.w3.weight", {4, 4});
  scaled.arrays()["l.experts.0.w3.weight_scale_inv"] = counting({2, 1});
  const auto found = findings_of(experts(), scaled);
  ASSERT_THAT(found, SizeIs(1));
  EXPECT_THAT(found[0].message,
              HasSubstr("'l.experts.0.w3.weight_scale_inv' is [2, 1], but 'l.experts.0.w3.weight' "
                        "[4, 4] in blocks of [2, 2] needs [2, 2]"));
}

TEST(Companions, WithoutADeclaredBlockAreRefused) {
  Scaled scaled(2, 2);
  scaled.add("l.experts.0.w1.weight", {4, 4});
  scaled.add("l.experts.0.w3.weight", {4, 4});
  const auto found = apply_mapping(experts(), leaves_of(scaled.arrays()), ModelConfig()).findings;
  ASSERT_THAT(found, SizeIs(1));
  EXPECT_THAT(found[0].message, HasSubstr("config.json does not say the size of their blocks"));
}

/// A renaming that ends on a name boundary does not see the scale; it is named after its weight.
TEST(Companions, OfARenamedWeightAreRenamedWithIt) {
  const Mapping mapping("m", {renaming("q_proj.weight", "wq.weight")});
  const Arrays arrays = {{"a.q_proj.weight", counting({2, 2})},
                         {"a.q_proj.weight_scale_inv", counting({1, 1}, 9)}};
  MappingResult there = apply_mapping(mapping, leaves_of(arrays), ModelConfig());
  EXPECT_THAT(testing::names_of(there), ElementsAre("a.wq.weight", "a.wq.weight_scale_inv"));
  const MappingResult back =
      apply_mapping(mapping.reversed(), std::move(there.tensors), ModelConfig());
  EXPECT_EQ(gather(back, arrays), arrays);
}

/// Random chains over random blocks: converted or refused, never wrong.
TEST(Companions, AreRightWhereverTheyAreNotRefused) {
  std::mt19937_64 random(20'261);
  const auto number = [&](int64_t low, int64_t high) {
    return std::uniform_int_distribution<int64_t>(low, high)(random);
  };
  int converted = 0;
  for (int round = 0; round < 300; ++round) {
    const int64_t side = number(1, 3);
    Scaled scaled(side, side);
    const Shape shape{number(1, 6), number(1, 6)};
    for (int e = 0; e < 3; ++e) {
      scaled.add("x." + std::to_string(e) + ".a.weight", shape);
      scaled.add("x." + std::to_string(e) + ".b.weight", shape);
    }
    const auto dim = static_cast<int>(number(0, 2));
    std::vector<OperationPtr> operations;
    operations.push_back(make_merge_modulelist(dim));
    operations.push_back(make_concatenate(static_cast<int>(number(0, 2))));
    if (number(0, 1) == 1) operations.push_back(make_transpose(1, 2));
    const Mapping mapping("m", {converter({"x.*.a.weight", "x.*.b.weight"}, {"y"}, operations)});
    const MappingResult result =
        apply_mapping(mapping, leaves_of(scaled.arrays()), scaled.config());
    if (!result.findings.empty()) continue;
    ++converted;
    scaled.expect_scales_fit(gather(result, scaled.arrays()));
  }
  EXPECT_GT(converted, 30);
}

/// A suffix that only the mapping knows is looked for like the others.
TEST(Companions, OfASuffixThatTheMappingDeclaresFollow) {
  MappingRules rules;
  rules.companions = {{"_amax", "", {kWholeDim, kWholeDim}}};
  const Mapping mapping("m", {converter({"e.*.w"}, {"e.w"}, {make_merge_modulelist(0)})}, rules);
  const Arrays arrays = {{"e.0.w", counting({2, 2})},
                         {"e.0.w_amax", counting({1, 1}, 50)},
                         {"e.1.w", counting({2, 2}, 4)},
                         {"e.1.w_amax", counting({1, 1}, 60)}};
  const MappingResult result = apply_mapping(mapping, leaves_of(arrays), ModelConfig());
  EXPECT_THAT(result.findings, SizeIs(0));
  EXPECT_EQ(gather(result, arrays).at("e.w_amax"), (Dense{{2, 1, 1}, {50, 60}}));
}

}  // namespace
}  // namespace weightloom
