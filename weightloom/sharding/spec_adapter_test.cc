// The adapters of four models, as layout: what a rank holds of a packed expert tensor, and that it
// reads no more than that.
#include "weightloom/sharding/spec_adapter.h"

#include <functional>
#include <set>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "weightloom/base/error_testing.h"
#include "weightloom/layout/layout_testing.h"
#include "weightloom/sharding/hf_load_plan.h"
#include "weightloom/sharding/hf_save_plan.h"
#include "weightloom/sharding/load_specs_json.h"

namespace weightloom::testing {
namespace {

using ::testing::HasSubstr;

constexpr int64_t kExperts = 4;
constexpr int64_t kHidden = 5;
constexpr int64_t kInner = 3;

/// A model's weight: its adapter, its shape in the checkpoint, and where an element of the
/// program's tensor stands there, by hand.
struct Weight {
  std::string label;
  std::string adapter;
  Shape key_shape;
  Shape shape;
  std::function<Index(const Index&)> source;
};

std::vector<Weight> weights() {
  const int64_t e = kExperts;
  const int64_t h = kHidden;
  const int64_t i = kInner;
  // Row r of (e, gate or up, inner).
  const auto gate_up_row = [](int64_t r) {
    return std::array<int64_t, 3>{r / (2 * kInner), r / kInner % 2, r % kInner};
  };
  const std::string turned = R"({"op": "Transpose", "dim0": 1, "dim1": 2})";
  return {
      {"gpt_oss gate_up",
       turned + R"(, {"op": "Unflatten", "dim": 1, "sizes": [3, 2]}, )" + turned +
           R"(, {"op": "Flatten", "dim": 0, "sizes": [4, 2, 3]})",
       {e, h, 2 * i},
       {e * 2 * i, h},
       [=](const Index& at) -> Index {
         const auto [expert, kind, inner] = gate_up_row(at[0]);
         return {expert, at[1], 2 * inner + kind};
       }},
      {"gpt_oss gate_up bias",
       R"({"op": "Unflatten", "dim": 1, "sizes": [3, 2]}, )" + turned +
           R"(, {"op": "Flatten", "dim": 0, "sizes": [4, 2, 3]})",
       {e, 2 * i},
       {e * 2 * i},
       [=](const Index& at) -> Index {
         const auto [expert, kind, inner] = gate_up_row(at[0]);
         return {expert, 2 * inner + kind};
       }},
      {"gpt_oss down, qwen3vl down",
       turned + R"(, {"op": "Flatten", "dim": 0, "sizes": [4, 5]})",
       {e, i, h},
       {e * h, i},
       [=](const Index& at) -> Index { return {at[0] / kHidden, at[1], at[0] % kHidden}; }},
      {"qwen3_5 gate_up",
       R"({"op": "Flatten", "dim": 0, "sizes": [4, 6]})",
       {e, 2 * i, h},
       {e * 2 * i, h},
       [=](const Index& at) -> Index {
         return {at[0] / (2 * kInner), at[0] % (2 * kInner), at[1]};
       }},
      {"qwen3vl gate_up",
       turned + R"(, {"op": "Flatten", "dim": 0, "sizes": [4, 6]})",
       {e, h, 2 * i},
       {e * 2 * i, h},
       [=](const Index& at) -> Index {
         return {at[0] / (2 * kInner), at[1], at[0] % (2 * kInner)};
       }},
  };
}

LoadSpec spec_of(const Weight& weight, const std::string& shards) {
  std::string sizes;
  for (const int64_t size : weight.shape)
    sizes += (sizes.empty() ? "" : ", ") + std::to_string(size);
  return parse_load_specs(R"([{"name": "w", "global_hf_keys": ["k"], "global_shape": [)" + sizes +
                              R"(], "shards": [)" + shards + R"(], "adapter": [)" + weight.adapter +
                              "]}]",
                          weight.label)
      .front();
}

Dense canonical(const Weight& weight, const Dense& key) {
  return built(weight.shape, [&](const Index& index) { return at(key, weight.source(index)); });
}

TEST(SpecAdapterTest, RanksHoldTheirRowsOfWhatTheAdapterGives) {
  const MeshSet meshes = MeshSet::parse("fsdp=3,ep=2");
  for (const Weight& weight : weights()) {
    const LoadSpec spec =
        spec_of(weight, R"({"dim": 0, "axis": "ep"}, {"dim": 0, "axis": "fsdp"})");
    const Dense key = counting(weight.key_shape, 1);
    const Dense whole = canonical(weight, key);
    EXPECT_EQ(key_shape(spec), weight.key_shape) << weight.label;
    for (int64_t rank = 0; rank < meshes.size(); ++rank) {
      const LoadSpec bound = bind(spec, meshes, rank);
      const HFLoadPlan plan = plan_hf_load(bound);
      const int64_t of_ep = weight.shape[0] / 2;
      const int64_t each = (of_ep + 2) / 3;
      const int64_t begin = rank % 2 * of_ep + std::min(of_ep, rank / 2 * each);
      const int64_t end = rank % 2 * of_ep + std::min(of_ep, (rank / 2 + 1) * each);
      EXPECT_EQ(gather(plan.layout, std::span(&key, 1)), dense_slice(whole, 0, begin, end))
          << weight.label << " rank " << rank;
    }
  }
}

TEST(SpecAdapterTest, ARankReadsOnlyItsOwnElementsOfAPackedTensor) {
  for (const Weight& weight : weights()) {
    const LoadSpec spec = spec_of(weight, R"({"dim": 0, "size": 4, "rank": 2})");
    const HFLoadPlan plan = plan_hf_load(spec);
    std::set<int64_t> read;
    for (const Pair& pair : pairs_of(plan.layout.regions())) read.insert(pair.source_offset);
    // Expert 2 of 4: the third quarter of the key, once.
    const int64_t quarter = elements(weight.key_shape) / 4;
    EXPECT_EQ(std::ssize(read), quarter) << weight.label;
    EXPECT_EQ(*read.begin(), 2 * quarter) << weight.label;
    EXPECT_EQ(*read.rbegin(), 3 * quarter - 1) << weight.label;
  }
}

TEST(SpecAdapterTest, ASaveGivesThePackedTensorBack) {
  for (const Weight& weight : weights()) {
    const LoadSpec spec = spec_of(weight, R"({"dim": 0, "size": 4, "rank": 2, "group": "ep"})");
    const Dense key = counting(weight.key_shape, 1);
    const Dense whole = canonical(weight, key);
    const HFSavePlan plan = plan_hf_save(spec, {});
    ASSERT_EQ(plan.key_layouts.size(), 1U);
    EXPECT_EQ(gather(plan.key_layouts[0], std::span(&whole, 1)), key) << weight.label;
  }
}

TEST(SpecAdapterTest, KeysOfSeveralExpertsAreFlattenedTogether) {
  // Two keys of two experts each, 3 by 2.
  const auto specs = parse_load_specs(
      R"([{"name": "w", "global_hf_keys": ["a", "b"], "fused_dim": 0, "global_shape": [12, 2],
           "shards": [{"dim": 0, "size": 4, "rank": 2, "group": "ep"}],
           "adapter": [{"op": "Flatten", "dim": 0, "sizes": [4, 3]}]}])",
      "s.json");
  const HFLoadPlan plan = plan_hf_load(specs[0]);
  EXPECT_EQ(plan.key_shape, (Shape{2, 3, 2}));
  EXPECT_EQ(plan.hf_keys, std::vector<std::string>{"b"});
  const Dense key = counting({2, 3, 2}, 1);
  EXPECT_EQ(gather(plan.layout, std::span(&key, 1)).values,
            (std::vector<int64_t>{1, 2, 3, 4, 5, 6}));
  const SavePolicy policy{.preserve_process_group = ShardGroup("ep")};
  EXPECT_THAT(weightloom::refusal_of([&] { plan_hf_save(specs[0], policy); })->what(),
              HasSubstr("hold 6 of 12 elements of key 'b': needed whole keys"));
}

TEST(SpecAdapterTest, KeysThatAreNotLeftTogetherCannotBePaddedEach) {
  // Two keys of 2 by 4; each of two groups of 3 rows is to end in one of padding.
  const auto plan_of = [](const std::string& adapter) {
    const std::string text = R"([{"name": "w", "global_hf_keys": ["a", "b"], "fused_dim": 0,
        "global_shape": [6, 4], "origin_shape": [4, 4], "padding": "per_key", "adapter": [)";
    return plan_hf_load(parse_load_specs(text + adapter + "]}]", "s.json").front());
  };
  EXPECT_THAT(weightloom::refusal_of([&] {
                plan_of(R"({"op": "Transpose", "dim0": 0, "dim1": 1})");
              })->what(),
              HasSubstr("does not leave key 'a' together in 2 rows of dim 0"));
  const HFLoadPlan plan = plan_of(
      R"({"op": "Unflatten", "dim": 1, "sizes": [2, 2]},
         {"op": "Transpose", "dim0": 1, "dim1": 2}, {"op": "Flatten", "dim": 1, "sizes": [2, 2]})");
  const std::vector<Dense> keys = {counting({2, 4}, 1), counting({2, 4}, 9)};
  EXPECT_EQ(gather(plan.layout, keys).values,
            (std::vector<int64_t>{1, 3,  2,  4,  5,  7,  6,  8,  0, 0, 0, 0,
                                  9, 11, 10, 12, 13, 15, 14, 16, 0, 0, 0, 0}));
}

TEST(SpecAdapterTest, AnAdapterThatDoesNotFitIsRefused) {
  const auto specs = parse_load_specs(
      R"([{"name": "w", "global_hf_keys": ["a"], "global_shape": [12, 2],
           "adapter": [{"op": "Flatten", "dim": 0, "sizes": [5, 3]}]}])",
      "s.json");
  EXPECT_THAT(weightloom::refusal_of([&] { plan_hf_load(specs[0]); })->what(),
              HasSubstr("LoadSpec 'w': adapter"));
}

}  // namespace
}  // namespace weightloom::testing
