// A dense and a mixture-of-experts model, loaded by the ranks' LoadSpecs and saved again, under
// every policy: the published bytes.
#include <map>

#include <gtest/gtest.h>

#include "weightloom/comm/group_runs_testing.h"
#include "weightloom/comm/hf_save.h"
#include "weightloom/comm/hf_stream.h"
#include "weightloom/comm/parallel_save_testing.h"

namespace weightloom::testing {
namespace {

const char* const kMesh = "ep=2,fsdp=2";
constexpr TinyModel kModel{.layers = 2, .experts = 4, .hidden = 6, .ffn = 10};

ShardDescriptor along(const std::string& axis) {
  ShardDescriptor shard;
  shard.axis = axis;
  return shard;
}

/// Each tensor by itself, cut by fsdp.
std::vector<LoadSpec> dense_specs() {
  std::vector<LoadSpec> specs;
  for (const TensorSpec& tensor : hub_specs(kModel)) {
    std::vector<ShardDescriptor> shards;
    if (!tensor.shape.empty()) shards.push_back(along("fsdp"));
    specs.push_back(LoadSpec::make({.name = "runtime." + tensor.name,
                                    .global_hf_keys = {tensor.name},
                                    .global_shape = tensor.shape,
                                    .shards = shards}));
  }
  return specs;
}

/// The experts of a layer as one tensor, cut by ep, then by fsdp.
LoadSpec fused(const std::string& layer, const std::string& part, Shape shape) {
  std::vector<std::string> keys;
  for (int64_t expert = 0; expert < kModel.experts; ++expert) {
    keys.push_back(layer + ".block_sparse_moe.experts." + std::to_string(expert) + part);
  }
  shape[0] *= kModel.experts;
  return LoadSpec::make({.name = layer + ".fused" + part,
                         .global_hf_keys = keys,
                         .global_shape = shape,
                         .fused_dim = 0,
                         .shards = {along("ep"), along("fsdp")}});
}

std::vector<LoadSpec> moe_specs() {
  std::vector<LoadSpec> specs = dense_specs();
  std::erase_if(specs, [](const LoadSpec& spec) {
    return spec.name().find(".experts.") != std::string::npos;
  });
  for (int64_t i = 0; i < kModel.layers; ++i) {
    const std::string layer = "model.layers." + std::to_string(i);
    specs.push_back(fused(layer, ".w1.weight", {kModel.ffn, kModel.hidden}));
    specs.push_back(fused(layer, ".w3.weight", {kModel.ffn, kModel.hidden}));
    specs.push_back(fused(layer, ".w2.weight", {kModel.hidden, kModel.ffn}));
  }
  return specs;
}

/// What a rank loaded by its specs, to be saved again.
struct Held {
  Held(const std::string& hub, const std::vector<LoadSpec>& specs, int64_t rank) {
    const MeshSet meshes = MeshSet::parse(kMesh);
    Selection selection;
    selection.meshes = meshes;
    selection.load_specs = specs;
    const Checkpoint source = Checkpoint::open(system_calls(), hub);
    const Conversion mine =
        for_ranks(plan_conversion(system_calls(), source, selection, Registry::built_in()),
                  std::span(&rank, 1));
    memory = load(system_calls(), mine.program, {});
    for (const LoadSpec& spec : specs) bound.push_back(bind(spec, meshes, rank));
    for (const LoadSpec& spec : bound) {
      const auto targets = mine.program.targets();
      const auto target = std::ranges::find(targets, spec.name(), &ProgramTarget::name);
      items.push_back({target->dtype,
                       target->shape,
                       memory.tensors[static_cast<size_t>(target - targets.begin())],
                       {}});
    }
  }

  void plan(const SavePolicy& policy) {
    for (size_t i = 0; i < bound.size(); ++i) items[i].plan = plan_hf_save(bound[i], policy);
  }

  LoadedTensors memory;
  std::vector<LoadSpec> bound;
  std::vector<HFSaveItem> items;
};

/// Keeps whole tensors of a stream as read_tensors gives them.
struct KeptTensors : HFTensorSink {
  void take(const HFTensorSlice& slice) override {
    std::string& text = tensors[std::string(slice.name)];
    if (text.empty())
      text = tensor_text(slice.dtype, Shape(slice.shape.begin(), slice.shape.end()), "");
    text.append(reinterpret_cast<const char*>(slice.bytes.data()), slice.bytes.size());
  }
  Tensors tensors;
};

using Body = std::function<void(ProcessGroup&, const GroupFolder&, Held&)>;

void on_both_models(const Body& body) {
  on_every_rank([&](ProcessGroup& group) {
    for (const auto& specs : {dense_specs(), moe_specs()}) {
      const GroupFolder folder(group);
      if (group.rank() == 0) write_folder(folder / "hub", hub_files(1 << 30, kModel));
      group.barrier();
      Held held(folder / "hub", specs, group.rank());
      body(group, folder, held);
    }
  });
}

GroupRanks expert_group(int64_t rank) { return {rank % 2, rank % 2 + 2}; }

TEST(HFPoliciesTest, PlainAndDistributedSavesGiveThePublishedBytes) {
  on_both_models([](ProcessGroup& group, const GroupFolder& folder, Held& held) {
    GroupCache groups(group);
    for (const bool distributed : {false, true}) {
      held.plan({.distributed_save = distributed});
      for (const int64_t max_save_rank : {1, 2, 16}) {
        save_hf_tensors(groups, held.items, folder / "saved",
                        {.bucket_bytes = 500, .max_save_rank = max_save_rank, .overwrite = true});
        group.barrier();
        EXPECT_EQ(read_tensors(folder / "saved"), read_tensors(folder / "hub"));
        group.barrier();
      }
    }
  });
}

TEST(HFPoliciesTest, AStreamThatPreservesTheExpertGroupGivesThePublishedBytes) {
  on_both_models([](ProcessGroup& group, const GroupFolder& folder, Held& held) {
    GroupCache groups(group);
    const GroupRanks experts = expert_group(group.rank());
    held.plan({.preserve_process_group = experts});
    KeptTensors kept;
    stream_hf_tensors(groups, experts, held.items, {.bucket_bytes = 500, .slice_bytes = 64}, kept);
    EXPECT_EQ(kept.tensors, read_tensors(folder / "hub"));
  });
}

TEST(HFPoliciesTest, ReceiversTakeTheirPartsOfFusedKeys) {
  on_every_rank([](ProcessGroup& group) {
    const GroupFolder folder(group);
    if (group.rank() == 0) write_folder(folder / "hub", hub_files(1 << 30, kModel));
    group.barrier();
    std::vector<LoadSpec> specs = moe_specs();
    std::erase_if(specs, [](const LoadSpec& spec) { return !spec.is_fused(); });
    Held held(folder / "hub", specs, group.rank());
    GroupCache groups(group);
    const Tensors published = read_tensors(folder / "hub");
    size_t taken = 0;
    for (const int64_t receiver : {0, 1}) {
      held.plan({.target_fused_key_partition = KeyPartition{receiver, 2}});
      KeptTensors kept;
      stream_hf_tensors(groups, expert_group(group.rank()), held.items, {}, kept);
      EXPECT_EQ(kept.tensors.size(), static_cast<size_t>(3 * kModel.layers * kModel.experts / 2));
      for (const auto& [name, text] : kept.tensors) EXPECT_EQ(text, published.at(name)) << name;
      taken += kept.tensors.size();
    }
    EXPECT_EQ(taken, static_cast<size_t>(3 * kModel.layers * kModel.experts));
  });
}

TEST(HFPoliciesTest, GatheringOneGroupLeavesTheOthersPartsInPlace) {
  on_both_models([](ProcessGroup& group, const GroupFolder& folder, Held& held) {
    GroupCache groups(group);
    const int64_t first = group.rank() / 2 * 2;
    const GroupRanks fsdp = {first, first + 1};
    held.plan({.gather_process_group = fsdp});
    const auto tensors = unshard_tensors_for_hf_save(groups, held.items);
    const Tensors published = read_tensors(folder / "hub");
    for (size_t i = 0; i < tensors.size(); ++i) {
      const LoadSpec& spec = held.bound[i];
      const auto& keys = spec.global_hf_keys();
      const size_t each = spec.is_fused() ? keys.size() / 2 : 1;
      const size_t begin = spec.is_fused() ? static_cast<size_t>(group.rank() / 2) * each : 0;
      std::string expected;
      for (size_t k = begin; k < begin + each; ++k) {
        const std::string& text = published.at(keys[k]);
        const size_t shown = text.find("] ") + 2;
        expected += text.substr(shown);
      }
      EXPECT_EQ(std::string(reinterpret_cast<const char*>(tensors[i].bytes.data()),
                            tensors[i].bytes.size()),
                expected)
          << spec.name();
    }
  });
}

}  // namespace
}  // namespace weightloom::testing
