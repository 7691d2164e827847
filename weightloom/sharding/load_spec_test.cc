#include "weightloom/sharding/load_spec.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "weightloom/base/error_testing.h"
#include "weightloom/sharding/load_specs_json.h"
#include "weightloom/sharding/plan_checks_testing.h"

namespace weightloom::testing {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::string message_of(const LoadSpecFields& fields) {
  const auto refusal = refusal_of([&] { LoadSpec::make(fields); });
  return refusal && refusal->code() == ErrorCode::usage ? refusal->what() : "";
}

LoadSpecFields two_keys() {
  return {.name = "w", .global_hf_keys = {"a", "b"}, .global_shape = {8, 6}, .fused_dim = 0};
}

LoadSpecFields with_shard(const ShardDescriptor& shard) {
  LoadSpecFields fields = two_keys();
  fields.shards = {shard};
  return fields;
}

TEST(LoadSpecTest, WhatDoesNotFitIsRefusedWithNumbers) {
  LoadSpecFields fields = two_keys();
  fields.fused_dim.reset();
  EXPECT_THAT(message_of(fields), HasSubstr("LoadSpec 'w': 2 keys need a fused_dim"));
  fields = two_keys();
  fields.global_hf_keys = {"a"};
  EXPECT_THAT(message_of(fields), HasSubstr("fused_dim is 0, but there is one key only"));
  fields.global_hf_keys = {"a", "a"};
  EXPECT_THAT(message_of(fields), HasSubstr("2 names, of which 1 are distinct"));
  fields = two_keys();
  fields.origin_shape = {9, 6};
  EXPECT_THAT(message_of(fields),
              HasSubstr("origin_shape [9, 6] is not inside global_shape [8, 6]"));
  fields.origin_shape = {8};
  EXPECT_THAT(message_of(fields), HasSubstr("origin_shape [8] is not inside"));
}

TEST(LoadSpecTest, AShardLiesInWhatIsLeft) {
  EXPECT_THAT(message_of(with_shard({.dim = 2, .size = 2, .rank = 0})),
              HasSubstr("shard 0: dim 2 of a tensor of 2 dims"));
  EXPECT_THAT(message_of(with_shard({.dim = 0, .start = 4, .end = 9})),
              HasSubstr("shard 0: rows [4, 9) of dim 0, of which [0, 8) are left"));
  EXPECT_THAT(message_of(with_shard({.dim = 0, .start = 4, .end = 3})), HasSubstr("[4, 3)"));
  EXPECT_THAT(message_of(with_shard({.dim = 0, .size = 2})), HasSubstr("go together"));
  EXPECT_THAT(message_of(with_shard({.dim = 0, .size = 2, .rank = 2})), HasSubstr("rank 2 of 2"));
  EXPECT_THAT(message_of(with_shard({.dim = 1, .size = 2, .rank = 0, .interleave = 2})),
              HasSubstr("6 rows of dim 1 do not divide into 2 stripes for 2 ranks"));
  EXPECT_THAT(message_of(with_shard({.dim = 0})), HasSubstr("or an axis"));
  EXPECT_EQ(message_of(with_shard({.dim = 0, .start = 3, .end = 3})), "");
}

TEST(LoadSpecTest, RowsThatStandBesideARankMustAgreeWithIt) {
  ShardDescriptor shard{.dim = 0, .start = 4, .end = 8, .size = 2, .rank = 1};
  EXPECT_EQ(message_of(with_shard(shard)), "");
  shard.rank = 0;
  EXPECT_THAT(message_of(with_shard(shard)),
              HasSubstr("rows [4, 8) are not part 0 of 2 of 8 rows in 1 stripes"));
  LoadSpecFields fields = with_shard({.dim = 0, .size = 2, .rank = 0});
  fields.local_shape = {5, 6};
  EXPECT_THAT(message_of(fields),
              HasSubstr("local_shape is recorded as [5, 6], but the shards give [4, 6]"));
}

TEST(LoadSpecTest, GroupsBeyondAllNumbersAreRefused) {
  LoadSpecFields fields{.name = "w", .global_hf_keys = {"a"}, .global_shape = {0}};
  const int64_t size = int64_t{1} << 32;
  fields.shards = {{.dim = 0, .size = size, .rank = 0, .axis = "x"},
                   {.dim = 0, .size = size, .rank = 0, .axis = "y"}};
  EXPECT_EQ(message_of(fields), "");
  fields.padding = {PadScope::per_cut, "y"};
  EXPECT_THAT(message_of(fields),
              HasSubstr("0 rows of dim 0 do not divide by 4294967296 times 4294967296 padded"));
}

TEST(LoadSpecTest, StripesOfSeveralDimsThatMultiplyBeyondMeasureAreRefused) {
  LoadSpecFields fields{.name = "w", .global_hf_keys = {"a"}, .global_shape = {8192, 8192}};
  fields.shards = {{.dim = 0, .size = 2, .rank = 0, .interleave = 4096},
                   {.dim = 1, .size = 2, .rank = 0, .interleave = 4096}};
  const auto refusal = refusal_of([&] { plan_hf_load(LoadSpec::make(fields)); });
  ASSERT_TRUE(refusal);
  EXPECT_EQ(refusal->code(), ErrorCode::plan);
  EXPECT_THAT(refusal->what(), HasSubstr("LoadSpec 'w': a rank's part has more than 4000000"));
}

TEST(LoadSpecTest, WhatOneRankRefusesAllRanksRefuse) {
  // 10 rows over 4: 3, 3, 3 and 1, of which the last does not divide into 3 stripes of one rank.
  LoadSpecFields fields{.name = "w", .global_hf_keys = {"a"}, .global_shape = {10}};
  for (int64_t rank = 0; rank < 4; ++rank) {
    fields.shards = {{.dim = 0, .size = 4, .rank = rank},
                     {.dim = 0, .size = 1, .rank = 0, .interleave = 3}};
    EXPECT_THAT(message_of(fields), HasSubstr("shard 1: 1 rows of dim 0 do not divide"));
  }
}

TEST(LoadSpecTest, AMeshTellsSizeRankAndGroup) {
  LoadSpecFields fields = two_keys();
  fields.shards = {{.dim = 0, .axis = "tp"}, {.dim = 1, .axis = "fsdp"}};
  const LoadSpec spec = LoadSpec::make(fields);
  EXPECT_FALSE(spec.is_bound());
  const MeshSet meshes = MeshSet::parse("dense: fsdp=3,tp=2; expert: ep=6");
  const LoadSpec bound = bind(spec, meshes, 5);
  EXPECT_EQ(bound.shards()[0].rank, 1);
  EXPECT_EQ(bound.shards()[0].group, ShardGroup(std::vector<int64_t>{4, 5}));
  EXPECT_EQ(bound.shards()[1].group, ShardGroup(std::vector<int64_t>{1, 3, 5}));
  EXPECT_EQ(local_shape(local_part(bound)), (Shape{4, 2}));
  EXPECT_EQ(to_sharding(spec, meshes).mesh, "dense");
  EXPECT_THAT(refusal_of([&] { bind(spec, MeshSet::parse("ep=6"), 0); })->what(),
              HasSubstr("no mesh of 'ep=6' has the axes"));
  EXPECT_THAT(refusal_of([&] { plan_hf_load(spec); })->what(), HasSubstr("along axes of a mesh"));
}

TEST(LoadSpecTest, PaddingStandsWhereItsScopeSays) {
  LoadSpecFields fields = two_keys();
  fields.origin_shape = {6, 6};
  fields.shards = {{.dim = 0, .size = 2, .rank = 0, .axis = "ep"}};
  // Keys of 3 rows; rank 0 of 2 has 4 rows.
  EXPECT_THAT(local_part(LoadSpec::make(fields))[0], ElementsAre(Segment{0, 4, false}));
  fields.padding = {PadScope::per_key};
  EXPECT_THAT(local_part(LoadSpec::make(fields))[0],
              ElementsAre(Segment{0, 3, false}, Segment{0, 1, true}));
  fields.padding = {PadScope::per_cut, "ep"};
  fields.shards[0].rank = 1;
  EXPECT_THAT(local_part(LoadSpec::make(fields))[0],
              ElementsAre(Segment{3, 3, false}, Segment{0, 1, true}));
  fields.padding.axis = "tp";
  EXPECT_THAT(message_of(fields), HasSubstr("no shard is on 'tp'"));
}

/// Loads and saves of each rank of a mesh, under each policy that the example has.
void expect_sound(const LoadSpec& spec, const MeshSet& meshes,
                  const std::vector<std::string>& axes) {
  for (int64_t rank = 0; rank < meshes.size(); ++rank) {
    const LoadSpecFields bound = bind(spec, meshes, rank).fields();
    EXPECT_EQ(load_fault(bound), "") << rank;
    EXPECT_EQ(save_fault(bound, {.distributed_save = true}), "") << rank;
    for (const std::string& axis : axes) {
      const size_t place = *meshes.first().find(axis);
      const ShardGroup group = meshes.first().group_of(rank, std::span(&place, 1));
      EXPECT_EQ(save_fault(bound, {.gather_process_group = group}), "") << rank;
    }
  }
}

TEST(LoadSpecExamplesTest, DenseQueriesOverTp2AndFsdp4) {
  const LoadSpec spec =
      LoadSpec::make({.name = "layers.0.self_attn.q_proj.weight",
                      .global_hf_keys = {"model.layers.0.self_attn.q_proj.weight"},
                      .global_shape = {24, 5},
                      .shards = {{.dim = 0, .axis = "tp"}, {.dim = 0, .axis = "fsdp"}}});
  const MeshSet meshes = MeshSet::parse("fsdp=4,tp=2");
  // tp 1 has rows 12 to 23, fsdp 2 of it rows 18 to 20.
  const HFLoadPlan plan = plan_hf_load(bind(spec, meshes, 5));
  EXPECT_THAT(plan.slices, ElementsAre(LoadSlice{0, 18, 21}));
  EXPECT_EQ(plan.target_shape, (Shape{3, 5}));
  expect_sound(spec, meshes, {"fsdp"});
}

LoadSpecFields experts() {
  LoadSpecFields fields{.name = "layers.0.experts.fused_w1w3.weight",
                        .global_shape = {128 * 4, 3},
                        .fused_dim = 0,
                        .shards = {{.dim = 0, .axis = "ep"}, {.dim = 0, .axis = "fsdp"}},
                        .origin_shape = Shape{128 * 3, 3},
                        .padding = {PadScope::per_key}};
  for (int i = 0; i < 64; ++i) {
    const std::string expert = "model.layers.0.mlp.experts." + std::to_string(i);
    fields.global_hf_keys.push_back(expert + ".gate_proj.weight");
    fields.global_hf_keys.push_back(expert + ".up_proj.weight");
  }
  return fields;
}

TEST(LoadSpecExamplesTest, ExpertsOverEp8AndFsdp4YieldTheirOwnKeys) {
  const LoadSpec spec = LoadSpec::make(experts());
  const MeshSet meshes = MeshSet::parse("ep=8,fsdp=4");
  for (const int64_t rank : {0, 13, 31}) {
    const LoadSpec bound = bind(spec, meshes, rank);
    EXPECT_EQ(load_fault(bound.fields()), "") << rank;
    // 16 keys for each ep rank, four of them for each fsdp rank, padding apart.
    EXPECT_EQ(plan_hf_load(bound).hf_keys.size(), 4U);
    const SavePolicy policy{.preserve_process_group = bound.shards()[0].group};
    EXPECT_EQ(save_fault(bound.fields(), policy), "") << rank;
    const HFSavePlan plan = plan_hf_save(bound, policy);
    EXPECT_TRUE(plan.preserves_shards);
    EXPECT_EQ(plan.hf_keys.size(), 16U);
    EXPECT_EQ(plan.hf_keys.front(), spec.global_hf_keys()[static_cast<size_t>(rank / 4 * 16)]);
    EXPECT_THAT(plan.executed_order(), ElementsAre(1));
  }
}

TEST(LoadSpecExamplesTest, EmbeddingsOverFsdpAlone) {
  const LoadSpec spec = LoadSpec::make({.name = "embed_tokens.weight",
                                        .global_hf_keys = {"model.embed_tokens.weight"},
                                        .global_shape = {13, 2},
                                        .shards = {{.dim = 0, .axis = "fsdp"}}});
  expect_sound(spec, MeshSet::parse("fsdp=5"), {"fsdp"});
}

constexpr const char* kText = R"([
{"name":"w","global_hf_keys":["a","b"],"global_shape":[8,6],"fused_dim":0,"shards":[{"dim":0,"axis":"ep"}],"origin_shape":[6,6],"padding":{"per_cut":"ep"}},
{"name":"v","global_hf_keys":["c"],"global_shape":[4,2],"shards":[{"dim":0,"start":0,"end":2,"size":2,"rank":0,"group":[0,1]}],"adapter":[{"op":"Transpose","dim0":0,"dim1":1}]}
]
)";

TEST(LoadSpecsJsonTest, WhatIsWrittenIsReadBack) {
  const auto specs = parse_load_specs(kText, "s.json");
  ASSERT_EQ(specs.size(), 2U);
  EXPECT_EQ(specs[0].padding(), (SpecPadding{PadScope::per_cut, "ep"}));
  EXPECT_EQ(specs[1].shards()[0].group, ShardGroup(std::vector<int64_t>{0, 1}));
  EXPECT_EQ(format_load_specs(specs),
            format_load_specs(parse_load_specs(format_load_specs(specs), "again")));
}

std::string json_message(const std::string& text) {
  const auto refusal = refusal_of([&] { parse_load_specs(text, "s.json"); });
  return refusal ? refusal->what() : "";
}

TEST(LoadSpecsJsonTest, WhatIsWrongIsNamedByEntryAndKey) {
  const std::string head = R"([{"name": "w", "global_hf_keys": ["a"], "global_shape": [4])";
  EXPECT_THAT(json_message("{}"), HasSubstr("s.json: must be a JSON list, but is an object"));
  EXPECT_THAT(json_message("[], 1"), HasSubstr("s.json: not JSON"));
  EXPECT_THAT(json_message(head + R"(, "name": "v"}])"), HasSubstr("duplicate key 'name'"));
  EXPECT_THAT(json_message("[{}]"), HasSubstr("s.json: spec 0: 'name' is missing"));
  EXPECT_THAT(json_message(head + R"(, "shard": []}])"), HasSubstr("did you mean 'shards'?"));
  EXPECT_THAT(json_message(head + R"(, "shards": [{"dim": -1, "axis": "tp"}]}])"),
              HasSubstr("s.json: spec 0: shard 0: 'dim' is -1, and no dim"));
  EXPECT_THAT(json_message(head + R"(, "fused_dim": 0}])"),
              HasSubstr("s.json: spec 0: LoadSpec 'w': fused_dim is 0"));
  EXPECT_THAT(json_message(head + R"(, "padding": "head"}])"), HasSubstr("'padding' is 'head'"));
  EXPECT_THAT(json_message(head + R"(, "adapter": [{"op": "Turn"}]}])"),
              HasSubstr("s.json: spec 0: adapter[0]"));
  EXPECT_THAT(json_message(head + "}, " + head.substr(1) + "}]"),
              HasSubstr("s.json: spec 1: there is a spec called 'w' already"));
}

}  // namespace
}  // namespace weightloom::testing
