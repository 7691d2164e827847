// Random checkpoints of names that mean something: found or refused, never half, and whatever is
// found has operands that lie as its codec says (QuantisedCase::find checks that).
#include <random>
#include <set>

#include <gtest/gtest.h>

#include "weightloom/layout/layout_testing.h"
#include "weightloom/mapping/quantised_testing.h"

namespace weightloom {
namespace {

using testing::bytes_of;
using testing::quantised_by;
using testing::QuantisedCase;

const std::vector<std::string> kConfigs = {
    "",
    quantised_by(R"({"quant_method": "fp8", "weight_block_size": [2, 4]})"),
    quantised_by(R"({"quant_method": "fp8", "weight_block_size": [4, 4], "expert_dtype": "fp4"})"),
    quantised_by(R"({"quant_method": "fbgemm_fp8"})"),
    quantised_by(R"({"quant_method": "mxfp4"})"),
    quantised_by(R"({"quant_method": "modelopt", "quant_algo": "NVFP4", "group_size": 4})"),
    quantised_by(R"({"quant_method": "gptq", "bits": 8, "group_size": 4, "desc_act": true})"),
    quantised_by(R"({"quant_method": "gptq", "bits": 8, "group_size": -1})"),
    quantised_by(R"({"quant_method": "awq", "bits": 4, "group_size": 4})"),
    quantised_by(R"({"quant_method": "bitsandbytes"})"),
    quantised_by(R"({"quant_method": "compressed-tensors", "config_groups": {
        "a": {"targets": ["Linear"], "weights": {"num_bits": 8, "strategy": "group",
              "group_size": 4, "symmetric": false}},
        "b": {"targets": ["Linear"], "weights": {"num_bits": 4, "type": "float",
              "strategy": "tensor_group", "group_size": 4}},
        "c": {"targets": ["Linear"], "weights": {"num_bits": 8, "type": "float",
              "strategy": "channel"}}}})"),
};

const std::vector<std::string> kNames = {
    "m.weight",
    "m.weight_scale_inv",
    "m.weight_scale",
    "m.scale",
    "m.weight_packed",
    "m.weight_shape",
    "m.weight_zero_point",
    "m.weight_g_idx",
    "m.qweight",
    "m.qzeros",
    "m.scales",
    "m.g_idx",
    "m.SCB",
    "m.weight_format",
    "m.weight_scale_2",
    "m.weight_global_scale",
    "m.input_scale",
    "e.up_proj_blocks",
    "e.up_proj_scales",
    "e.up_proj",
    "e.up_proj_scale",
    "m.weight.absmax",
    "m.weight.quant_map",
    "m.weight.nested_absmax",
    "attn.k_scale",
    "m.weight.nested_quant_map",
    "m.weight.quant_state.bitsandbytes__nf4",
};

constexpr DType kDTypes[] = {DType::F8_E4M3, DType::F8_E5M2, DType::F8_E8M0, DType::U8,
                             DType::I8,      DType::I32,     DType::I64,     DType::F32,
                             DType::BF16,    DType::F16,     DType::F4};

class RandomCheckpoints {
 public:
  QuantisedCase next() {
    QuantisedCase c(kConfigs[number(0, kConfigs.size() - 1)]);
    std::set<std::string> names;
    const size_t count = number(1, 7);
    while (names.size() < count) names.insert(kNames[number(0, kNames.size() - 1)]);
    for (const std::string& name : names) add(c, name);
    return c;
  }

 private:
  size_t number(size_t low, size_t high) {
    return std::uniform_int_distribution<size_t>(low, high)(random_);
  }

  void add(QuantisedCase& c, const std::string& name) {
    constexpr int64_t kSizes[] = {0, 1, 1, 2, 2, 2, 4, 4, 8, 16, 256};
    Shape shape;
    for (size_t rank = number(0, 4); rank > 0; --rank) {
      shape.push_back(kSizes[number(0, std::size(kSizes) - 1)]);
    }
    const DType dtype = kDTypes[number(0, std::size(kDTypes) - 1)];
    std::vector<int64_t> values(static_cast<size_t>(std::min<int64_t>(elements(shape), 64)));
    for (auto& value : values) value = static_cast<int64_t>(number(0, 16)) - 1;
    std::string bytes = bytes_of(values, std::max(1, bits(dtype) / 8));
    if (name.ends_with("nf4")) {
      bytes = R"({"shape": [2, 8], "blocksize": 8, "nested_blocksize": 2, "nested_offset": 0.5})";
    }
    c.add(name, dtype, std::move(shape), std::move(bytes));
  }

  std::mt19937_64 random_{testing::test_seed()};
};

TEST(QuantisedRandom, CheckpointsAreFoundOrRefusedNeverHalf) {
  RandomCheckpoints checkpoints;
  int made = 0;
  int refused = 0;
  for (int round = 0; round < 60'000; ++round) {
    const auto found = checkpoints.next().find();
    ASSERT_FALSE(::testing::Test::HasFailure())
        << "seed " << testing::test_seed() << ", round " << round;
    made += found.tensors.empty() ? 0 : 1;
    refused += found.findings.empty() ? 0 : 1;
    for (const Finding& finding : found.findings) EXPECT_FALSE(finding.message.empty());
  }
  EXPECT_GT(made, 50);
  EXPECT_GT(refused, 10'000);
}

}  // namespace
}  // namespace weightloom
