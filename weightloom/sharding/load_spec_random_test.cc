// Random specs over random meshes, each rank's plans carried out element by element.
#include <random>

#include <gtest/gtest.h>

#include "weightloom/base/error_testing.h"
#include "weightloom/sharding/plan_checks_testing.h"

namespace weightloom::testing {
namespace {

/// Specs along the axes of a mesh; some do not fit, and are refused.
class RandomSpecs {
 public:
  explicit RandomSpecs(uint64_t seed) : random_(seed) {}

  int64_t below(int64_t end) {
    return static_cast<int64_t>(random_() % static_cast<uint64_t>(end));
  }

  MeshSet mesh() {
    std::vector<MeshAxis> axes;
    for (int64_t i = 0; i < 1 + below(4); ++i)
      axes.push_back({"a" + std::to_string(i), 1 + below(3)});
    return MeshSet(Mesh::make(axes));
  }

  LoadSpecFields fields(const Mesh& mesh) {
    LoadSpecFields made{.name = "w"};
    const int64_t dims = below(4);
    for (int64_t d = 0; d < dims; ++d) made.global_shape.push_back(below(9));
    add_keys(made);
    add_shards(made, mesh);
    add_padding(made);
    return made;
  }

  SavePolicy policy(const LoadSpecFields& fields) {
    SavePolicy policy;
    const int64_t kind = below(5);
    if (kind == 1) policy.distributed_save = true;
    const int64_t keys = std::ssize(fields.global_hf_keys);
    if (kind == 2 && keys > 1) policy.target_fused_key_partition = {below(keys), keys};
    if (kind < 3 || fields.shards.empty()) return policy;
    const auto& shard = fields.shards[static_cast<size_t>(below(std::ssize(fields.shards)))];
    (kind == 3 ? policy.preserve_process_group : policy.gather_process_group) = shard.group;
    return policy;
  }

 private:
  void add_keys(LoadSpecFields& made) {
    const int64_t keys = made.global_shape.empty() ? 1 : 1 + below(4);
    for (int64_t i = 0; i < keys; ++i) made.global_hf_keys.push_back("k" + std::to_string(i));
    if (keys == 1) return;
    made.fused_dim = static_cast<int>(below(std::ssize(made.global_shape)));
    made.global_shape[static_cast<size_t>(*made.fused_dim)] *= keys;
  }

  void add_shards(LoadSpecFields& made, const Mesh& mesh) {
    if (made.global_shape.empty()) return;
    std::vector<MeshAxis> axes(mesh.axes().begin(), mesh.axes().end());
    std::ranges::shuffle(axes, random_);
    for (const MeshAxis& axis : axes) {
      if (below(4) == 0) continue;
      const auto dim = static_cast<int>(below(std::ssize(made.global_shape)));
      made.shards.push_back({.dim = dim, .interleave = 1 + below(5) / 4, .axis = axis.name});
    }
  }

  void add_padding(LoadSpecFields& made) {
    made.padding.scope = static_cast<PadScope>(below(3));
    if (made.padding.scope == PadScope::per_cut) {
      if (made.shards.empty())
        made.padding = {};
      else
        made.padding.axis = made.shards[static_cast<size_t>(below(std::ssize(made.shards)))].axis;
    }
    if (below(2) == 0) return;
    made.origin_shape = made.global_shape;
    for (size_t d = 0; d < made.global_shape.size(); ++d) {
      const bool is_fused = made.fused_dim == static_cast<int>(d);
      made.global_shape[d] += below(3) * (is_fused ? std::ssize(made.global_hf_keys) : 1);
    }
  }

  std::mt19937_64 random_;
};

TEST(LoadSpecRandomTest, EachRankReadsAndSavesWhatTheSpecMeans) {
  const uint64_t seed = test_seed();
  int64_t loads = 0;
  int64_t saves = 0;
  for (uint64_t i = 0; i < 400; ++i) {
    RandomSpecs random(seed + i);
    const MeshSet meshes = random.mesh();
    const LoadSpecFields fields = random.fields(meshes.first());
    std::optional<LoadSpec> spec;
    std::optional<Sharding> sharding;
    const auto refusal = refusal_of([&] {
      spec = LoadSpec::make(fields);
      sharding = to_sharding(*spec, meshes);
    });
    for (int64_t rank = 0; rank < meshes.size(); ++rank) {
      if (refusal) {  // what one rank refuses, all refuse
        EXPECT_TRUE(refusal_of([&] { bind(LoadSpec::make(fields), meshes, rank); }))
            << "seed " << seed + i << " rank " << rank;
        continue;
      }
      const LoadSpec bound = bind(*spec, meshes, rank);
      EXPECT_EQ(local_part(bound),
                local_part(*sharding, meshes, bound.unpadded_global_shape(), rank));
      EXPECT_EQ(load_fault(bound.fields()), "") << "seed " << seed + i << " rank " << rank;
      ++loads;
      const SavePolicy policy = random.policy(bound.fields());
      std::string fault;
      if (refusal_of([&] { fault = save_fault(bound.fields(), policy); })) {
        EXPECT_TRUE(policy.preserve_process_group || policy.gather_process_group)
            << "seed " << seed + i;
        continue;
      }
      EXPECT_EQ(fault, "") << "seed " << seed + i << " rank " << rank;
      ++saves;
    }
  }
  EXPECT_GT(loads, 1000);
  EXPECT_GT(saves, 1000);
}

}  // namespace
}  // namespace weightloom::testing
