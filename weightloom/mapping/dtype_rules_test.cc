#include "weightloom/mapping/dtype_rules.h"

#include <gtest/gtest.h>

#include "weightloom/base/error.h"

namespace weightloom {
namespace {

Mapping with_rules(std::vector<DtypeRule> rules) {
  MappingRules all;
  all.dtype_rules = std::move(rules);
  return Mapping("m", {}, all);
}

TEST(DtypeRules, TheFirstThatMatchesDecides) {
  DtypeRules rules(with_rules({{"gate.*bias", DType::F32}, {"gate", DType::F64}}));
  EXPECT_EQ(rules.dtype_of("l.0.gate.e_bias", DType::BF16), DType::F32);
  EXPECT_EQ(rules.dtype_of("l.0.gate.weight", DType::BF16), DType::F64);
  EXPECT_EQ(rules.dtype_of("l.0.up.weight", DType::BF16), DType::BF16);
}

/// fp32 for modules that float16 would overflow, but that bfloat16 holds.
TEST(DtypeRules, HoldForTheDtypesTheyName) {
  DtypeRules rules(with_rules({{"wo", DType::F32, {DType::F16}}}));
  EXPECT_EQ(rules.dtype_of("b.0.wo.weight", DType::F16), DType::F32);
  EXPECT_EQ(rules.dtype_of("b.0.wo.weight", DType::BF16), DType::BF16);
}

TEST(DtypeRules, StarIsAnyTextAndGroupsMayStandInThem) {
  DtypeRules rules(with_rules({{"layers.*.(q|k)_norm", DType::F32}}));
  EXPECT_EQ(rules.dtype_of("layers.3.attn.k_norm.weight", DType::F16), DType::F32);
  EXPECT_EQ(rules.dtype_of("layers.3.attn.v_norm.weight", DType::F16), DType::F16);
}

TEST(DtypeRules, SurviveTheJsonOfTheirMapping) {
  const Mapping mapping =
      with_rules({{"wo", DType::F32, {DType::F16, DType::BF16}}, {"x", DType::F64}});
  const Mapping again = Mapping::parse(mapping.to_json(), "m.json");
  EXPECT_EQ(again.to_json(), mapping.to_json());
  EXPECT_EQ(DtypeRules(again).dtype_of("wo", DType::BF16), DType::F32);
}

TEST(DtypeRules, RefusesAPatternThatDoesNotCompile) {
  EXPECT_THROW(DtypeRules{with_rules({{"(", DType::F32}})}, Error);
}

}  // namespace
}  // namespace weightloom
