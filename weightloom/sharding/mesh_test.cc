#include "weightloom/sharding/mesh.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "weightloom/base/error_testing.h"

namespace weightloom {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST(MeshTest, RanksAreRowMajorCoordinates) {
  const Mesh mesh = Mesh::parse("pp=2, fsdp=3,tp=4");
  EXPECT_EQ(mesh.size(), 24);
  EXPECT_THAT(mesh.coordinate(17), ElementsAre(1, 1, 1));
  EXPECT_EQ(mesh.coordinate(17, 1), 1);
  EXPECT_EQ(mesh.rank_at(std::vector<int64_t>{1, 2, 3}), 23);
  EXPECT_EQ(to_string(mesh), "pp=2,fsdp=3,tp=4");
}

TEST(MeshTest, AGroupDiffersAlongTheGivenAxesOnly) {
  const Mesh mesh = Mesh::parse("fsdp=3,tp=2");
  EXPECT_THAT(mesh.group_of(3, std::vector<size_t>{0}), ElementsAre(1, 3, 5));
  EXPECT_THAT(mesh.group_of(3, std::vector<size_t>{1}), ElementsAre(2, 3));
  EXPECT_THAT(mesh.group_of(3, std::vector<size_t>{}), ElementsAre(3));
}

TEST(MeshTest, SeveralMeshesAreTheSameRanks) {
  const MeshSet meshes = MeshSet::parse("dense: fsdp=8,tp=4; expert: ep=32");
  EXPECT_EQ(meshes.size(), 32);
  EXPECT_EQ(meshes.find("expert")->axes()[0].name, "ep");
  EXPECT_EQ(meshes.find(""), meshes.find("dense"));
  EXPECT_EQ(meshes.find("none"), nullptr);
  EXPECT_EQ(MeshSet::parse(to_string(meshes)), meshes);
}

TEST(MeshTest, WhatIsNoMeshIsRefusedWithItsText) {
  const auto refused = [](const char* text) {
    const auto refusal = refusal_of([&] { MeshSet::parse(text); });
    return refusal && refusal->code() == ErrorCode::usage ? std::string(refusal->what()) : "";
  };
  EXPECT_THAT(refused("tp"), HasSubstr("'tp' is no axis of a mesh"));
  EXPECT_THAT(refused("tp=0"), HasSubstr("axis 'tp' has size 0"));
  EXPECT_THAT(refused("tp=2,tp=2"), HasSubstr("two axes called 'tp'"));
  EXPECT_THAT(refused("a=65536,b=65536"), HasSubstr("axis 'b' has size 65536"));
  EXPECT_THAT(refused("tp=x"), HasSubstr("'x' is no size"));
  EXPECT_THAT(refused("a: x=2; b: y=3"), HasSubstr("mesh 'a' has 2 ranks, mesh 'b' has 3"));
  EXPECT_THAT(refused("a: x=2; a: y=2"), HasSubstr("two meshes are called 'a'"));
}

}  // namespace
}  // namespace weightloom
