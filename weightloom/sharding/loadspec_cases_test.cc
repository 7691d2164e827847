// The worked cases of tests/data/loadspec_cases.json, carried out.
#include <fstream>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "weightloom/base/error_testing.h"
#include "weightloom/sharding/plan_checks_testing.h"

namespace weightloom::testing {
namespace {

using nlohmann::json;

std::vector<json> cases_of(const std::string& kind) {
  std::ifstream file(std::string(WEIGHTLOOM_TEST_DATA) + "/loadspec_cases.json");
  const json all = json::parse(file);
  std::vector<json> found;
  for (const json& one : all.at("cases")) {
    if (one.at("kind") == kind) found.push_back(one);
  }
  return found;
}

template <typename T>
std::optional<T> optional_at(const json& object, const char* key) {
  if (!object.contains(key) || object.at(key).is_null()) return std::nullopt;
  return object.at(key).get<T>();
}

std::optional<ShardGroup> group_at(const json& object, const char* key) {
  const auto name = optional_at<std::string>(object, key);
  if (!name) return std::nullopt;
  return ShardGroup(*name);
}

ShardDescriptor shard_of(const json& value) {
  return {.dim = value.at("dim"),
          .start = optional_at<int64_t>(value, "start"),
          .end = optional_at<int64_t>(value, "end"),
          .size = optional_at<int64_t>(value, "size"),
          .rank = optional_at<int64_t>(value, "rank"),
          .interleave = value.value("interleave", 1),
          .group = group_at(value, "group")};
}

LoadSpecFields fields_of(const json& one) {
  LoadSpecFields fields{.name = one.at("name"),
                        .global_shape = one.at("global_shape"),
                        .fused_dim = optional_at<int>(one, "fused_dim"),
                        .origin_shape = optional_at<Shape>(one, "origin_shape"),
                        .local_shape = optional_at<Shape>(one, "local_shape")};
  for (const json& key : one.at("keys")) fields.global_hf_keys.push_back(key.at("name"));
  for (const json& shard : one.at("shards")) fields.shards.push_back(shard_of(shard));
  return fields;
}

SavePolicy policy_of(const json& one) {
  const json& policy = one.at("policy");
  SavePolicy result{.distributed_save = policy.value("distributed_save", false),
                    .preserve_process_group = group_at(policy, "preserve_group"),
                    .gather_process_group = group_at(policy, "gather_group")};
  if (const auto partition = optional_at<std::vector<int64_t>>(policy, "target_partition")) {
    result.target_fused_key_partition = {partition->at(0), partition->at(1)};
  }
  return result;
}

TEST(LoadSpecCasesTest, EveryLoadGivesTheLocalTensorFromTheKeysItNeeds) {
  const auto cases = cases_of("load");
  EXPECT_EQ(cases.size(), 28U);
  for (const json& one : cases) {
    EXPECT_EQ(load_fault(fields_of(one)), "") << one.at("name");
  }
}

TEST(LoadSpecCasesTest, LoadPlansSayWhatTheCasesSay) {
  for (const json& one : cases_of("load")) {
    const json& wanted = one.at("expect_load");
    const HFLoadPlan plan = plan_hf_load(LoadSpec::make(fields_of(one)));
    EXPECT_EQ(json(plan.hf_keys), wanted.at("keys_touched")) << one.at("name");
    EXPECT_EQ(json(plan.target_shape), wanted.at("target_shape")) << one.at("name");
    EXPECT_EQ(json(plan.zero_fill), wanted.at("zero_fill")) << one.at("name");
    EXPECT_EQ(json(plan.zero_unwritten_target), wanted.at("zero_unwritten")) << one.at("name");
    const auto keys = optional_at<std::vector<std::string>>(wanted, "keys").value();
    EXPECT_EQ(plan.key_range.size(), std::ssize(keys)) << one.at("name");
    int64_t copied = 0;
    for (const KeyRegion& box : plan.key_regions) copied += elements(box.size);
    EXPECT_EQ(json(copied), wanted.at("bytes_elems_copied")) << one.at("name");
  }
}

TEST(LoadSpecCasesTest, SlicesAreThoseOfTheCasesWhereOneBoxSaysIt) {
  int64_t compared = 0;
  for (const json& one : cases_of("load")) {
    const json& wanted = one.at("expect_load");
    if (!wanted.contains("slices") || wanted.at("keys") != wanted.at("keys_touched")) continue;
    const HFLoadPlan plan = plan_hf_load(LoadSpec::make(fields_of(one)));
    json slices = json::array();
    for (const LoadSlice& slice : plan.slices) {
      slices.push_back({{"dim", slice.dim}, {"start", slice.start}, {"end", slice.end}});
    }
    EXPECT_EQ(slices, wanted.at("slices")) << one.at("name");
    ++compared;
  }
  EXPECT_GT(compared, 15);
}

TEST(LoadSpecCasesTest, EverySaveGivesTheKeysFromTheRanks) {
  const auto cases = cases_of("save");
  EXPECT_EQ(cases.size(), 10U);
  for (const json& one : cases) {
    EXPECT_EQ(save_fault(fields_of(one), policy_of(one)), "") << one.at("name");
  }
}

json segments_json(const LocalPart& part) {
  json dims = json::array();
  for (const Segments& segments : part) {
    json dim = json::array();
    for (const Segment& segment : segments) {
      if (!segment.is_pad) dim.push_back({segment.begin, segment.begin + segment.size});
    }
    dims.push_back(dim);
  }
  return dims;
}

/// The cases count padding as rows beyond the visible ones.
json clipped(const json& dims, const Shape& visible) {
  json result = json::array();
  for (size_t d = 0; d < visible.size(); ++d) {
    json kept = json::array();
    for (const json& segment : dims[d]) {
      const int64_t end = std::min(segment[1].get<int64_t>(), visible[d]);
      if (segment[0] < end) kept.push_back({segment[0], end});
    }
    result.push_back(kept);
  }
  return result;
}

TEST(LoadSpecCasesTest, SavePlansSayWhatTheCasesSay) {
  for (const json& one : cases_of("save")) {
    const json& wanted = one.at("expect_save");
    const HFSavePlan plan = plan_hf_save(LoadSpec::make(fields_of(one)), policy_of(one));
    EXPECT_EQ(json(plan.hf_keys), wanted.at("hf_keys")) << one.at("name");
    EXPECT_EQ(json(plan.runtime_output_shape), wanted.at("runtime_output_shape")) << one.at("name");
    EXPECT_EQ(json(plan.output_shape), wanted.at("output_shape")) << one.at("name");
    EXPECT_EQ(json(plan.preserves_shards), wanted.at("preserves_shards")) << one.at("name");
    EXPECT_EQ(json(plan.executed_order()), wanted.at("executed_order")) << one.at("name");
    EXPECT_EQ(segments_json(plan.output_part),
              clipped(wanted.at("output_global_segments"), plan.unpadded_global_shape))
        << one.at("name");
    json steps = json::array();
    for (const SaveShardStep& step : plan.unshard_steps) {
      steps.push_back({{"shard_index", step.shard_index},
                       {"dim", step.shard.dim},
                       {"shape_before_shard", step.runtime_shape_before_shard},
                       {"preserved", step.preserved},
                       {"local_size", step.local_size},
                       {"collective_local_size", step.collective_local_size},
                       {"interleave", step.shard.interleave},
                       {"world", step.shard.size.value_or(0)}});
    }
    EXPECT_EQ(steps, wanted.at("steps_forward")) << one.at("name");
    if (wanted.contains("fused_key_range")) {
      EXPECT_EQ(json({plan.fused_key_range.begin, plan.fused_key_range.end}),
                wanted.at("fused_key_range"))
          << one.at("name");
    }
  }
}

TEST(LoadSpecCasesTest, EachKeyIsWrittenByTheRankOfTheCases) {
  int64_t compared = 0;
  for (const json& one : cases_of("save")) {
    const json& wanted = one.at("expect_save");
    if (!wanted.contains("key_range_by_rank")) continue;
    const int64_t keys = std::ssize(one.at("keys"));
    const int64_t world = one.at("world_size");
    const int64_t most = one.at("max_save_rank");
    EXPECT_EQ(json(save_rank_count(keys, world, most)), wanted.at("save_rank_count"));
    for (int64_t rank = 0; rank < world; ++rank) {
      const Interval range = save_key_range(keys, rank, world, most);
      EXPECT_EQ(json({range.begin, range.end}),
                wanted.at("key_range_by_rank").at(static_cast<size_t>(rank)))
          << one.at("name");
    }
    ++compared;
  }
  EXPECT_EQ(compared, 4);
}

TEST(LoadSpecCasesTest, WhatIsWrongIsRefusedAtItsStage) {
  for (const json& one : cases_of("error")) {
    const std::string stage = one.at("expect_error").at("stage");
    const LoadSpecFields fields = fields_of(one);
    if (stage == "construct") {
      const auto refusal = refusal_of([&] { LoadSpec::make(fields); });
      EXPECT_TRUE(refusal && refusal->code() == ErrorCode::usage) << one.at("name");
      continue;
    }
    const LoadSpec spec = LoadSpec::make(fields);
    const auto refusal = refusal_of([&] {
      if (stage == "plan_load") {
        plan_hf_load(spec);
      } else {
        plan_hf_save(spec, policy_of(one));
      }
    });
    EXPECT_TRUE(refusal && refusal->code() == ErrorCode::usage) << one.at("name");
  }
}

}  // namespace
}  // namespace weightloom::testing
