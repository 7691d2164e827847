#include "weightloom/mapping/side_evidence.h"

#include <gtest/gtest.h>

#include "weightloom/mapping/mapping_testing.h"
#include "weightloom/mapping/registry.h"

namespace weightloom {
namespace {

using testing::renaming;

Mapping built_in(const char* name) { return *Registry::built_in().find(name); }

TEST(SideEvidence, TellsWhichSideMatchesAnyName) {
  const std::vector<std::string_view> hub = {"norm.weight", "a.mlp.experts.0.up_proj.weight"};
  const std::vector<std::string_view> runtime = {"norm.weight", "a.mlp.experts.gate_up_proj"};
  const std::vector<std::string_view> neither = {"norm.weight"};
  EXPECT_TRUE(side_evidence(built_in("qwen3_moe"), hub).hub);
  EXPECT_FALSE(side_evidence(built_in("qwen3_moe"), hub).runtime);
  EXPECT_FALSE(side_evidence(built_in("qwen3_moe"), runtime).hub);
  EXPECT_TRUE(side_evidence(built_in("qwen3_moe"), runtime).runtime);
  EXPECT_FALSE(side_evidence(built_in("qwen3_moe"), neither).hub);
  EXPECT_FALSE(side_evidence(built_in("qwen3_moe"), neither).runtime);
}

TEST(SideEvidence, HoldsForNamesThatOnlyARenamingMatches) {
  const std::vector<std::string_view> hub = {"a.block_sparse_moe.gate.weight"};
  const std::vector<std::string_view> runtime = {"a.mlp.gate.weight"};
  EXPECT_TRUE(side_evidence(built_in("mixtral"), hub).hub);
  EXPECT_FALSE(side_evidence(built_in("mixtral"), hub).runtime);
  EXPECT_TRUE(side_evidence(built_in("mixtral"), runtime).runtime);
}

SideEvidence evidence_of(std::vector<WeightTransform> transforms, const std::string& name) {
  const std::vector<std::string_view> names{name};
  return side_evidence(Mapping("m", std::move(transforms)), names);
}

/// A prefix that is there tells the side; that one could be put on tells nothing.
TEST(SideEvidence, ComesFromTextThatIsThere) {
  const auto hub = evidence_of({PrefixChange{"", "wrapped"}}, "wrapped.w");
  EXPECT_TRUE(hub.hub);
  EXPECT_FALSE(hub.runtime);
  const auto runtime = evidence_of({PrefixChange{"model", ""}}, "model.w");
  EXPECT_FALSE(runtime.hub);
  EXPECT_TRUE(runtime.runtime);
  const auto neither = evidence_of({PrefixChange{"", "wrapped"}, renaming("^", "model.")}, "w");
  EXPECT_FALSE(neither.hub);
  EXPECT_FALSE(neither.runtime);
}

}  // namespace
}  // namespace weightloom
