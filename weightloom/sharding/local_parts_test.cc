#include "weightloom/sharding/local_parts.h"

#include <vector>

#include <gtest/gtest.h>

#include "weightloom/base/error.h"

namespace weightloom {
namespace {

TEST(LocalPartsTest, EachQuestionHasItsOwnAnswer) {
  const MeshSet meshes = MeshSet::parse("fsdp=3,tp=2");
  const std::vector<Sharding> shardings = {
      {},
      {.steps = {CutStep{"fsdp", 0}}},
      {.steps = {CutStep{"fsdp", 1}}},
      {.steps = {CutStep{"tp", 0}}},
      {.steps = {CutStep{"tp", 0}, CutStep{"fsdp", 0}}},
      {.steps = {PadStep{0, 8}, CutStep{"tp", 1}}},
      {.steps = {StageStep{"tp", {1}}}},
  };
  const std::vector<Shape> shapes = {{7, 4}, {4, 7}, {6, 6}, {28, 1}};
  for (int64_t rank = 0; rank < meshes.size(); ++rank) {
    LocalParts parts(meshes, rank);
    for (int round = 0; round < 2; ++round) {
      for (const Sharding& sharding : shardings) {
        for (const Shape& shape : shapes) {
          EXPECT_EQ(parts.of(sharding, shape), local_part(sharding, meshes, shape, rank));
        }
      }
    }
  }
}

TEST(LocalPartsTest, EqualQuestionsShareOneAnswer) {
  const MeshSet meshes = MeshSet::parse("fsdp=2");
  const Sharding first{.steps = {CutStep{"fsdp", 0}}};
  const Sharding second = first;
  const Shape shape = {4, 2};
  const Shape same = {4, 2};
  LocalParts parts(meshes, 1);
  EXPECT_EQ(&parts.of(first, shape), &parts.of(second, same));
}

TEST(LocalPartsTest, ARefusedQuestionIsRefusedAgain) {
  const MeshSet meshes = MeshSet::parse("fsdp=2");
  const Sharding sharding{.steps = {CutStep{"fsdp", 3}}};
  const Shape shape = {4, 2};
  LocalParts parts(meshes, 0);
  EXPECT_THROW(parts.of(sharding, shape), Error);
  EXPECT_THROW(parts.of(sharding, shape), Error);
}

}  // namespace
}  // namespace weightloom
