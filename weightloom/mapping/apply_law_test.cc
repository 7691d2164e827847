// The law of mappings: what a mapping makes of a checkpoint, the reversed mapping makes back, name
// for name and element for element.
#include <random>

#include <gtest/gtest.h>

#include "weightloom/mapping/apply.h"
#include "weightloom/mapping/mapping_testing.h"

namespace weightloom {
namespace {

using testing::Arrays;
using testing::converter;
using testing::counting;
using testing::leaves_of;
using testing::renaming;

class RandomCheckpoint {
 public:
  explicit RandomCheckpoint(uint64_t seed) : random_(seed) {}

  int64_t number(int64_t low, int64_t high) {
    return std::uniform_int_distribution<int64_t>(low, high)(random_);
  }

  /// Layers with experts, a fused qkv, a transposed gate, and tensors that nothing touches.
  Arrays tensors() {
    const int64_t hidden = number(1, 4);
    const int64_t inner = number(1, 3);
    const int64_t experts = number(1, 13);
    for (int64_t layer = number(1, 3); layer-- > 0;) {
      const std::string prefix = "old.layers." + std::to_string(layer);
      for (int64_t e = 0; e < experts; ++e) {
        const std::string expert = prefix + ".experts." + std::to_string(e);
        add(expert + ".w1.weight", {inner, hidden});
        add(expert + ".w2.weight", {hidden, inner});
        add(expert + ".w3.weight", {inner, hidden});
      }
      add(prefix + ".attn.qkv.weight", {3 * 4 * inner, hidden});
      add(prefix + ".attn.qkv.bias", {3 * 4 * inner});
      add(prefix + ".gate.weight", {hidden, experts});
      add(prefix + ".norm.weight", {hidden});
      add(prefix + ".mix.weight", {2 * hidden, inner});
    }
    add("old.scalar", {});
    return std::move(arrays_);
  }

 private:
  void add(const std::string& name, Shape shape) {
    arrays_[name] = counting(std::move(shape), next_);
    next_ += elements(arrays_[name].shape);
  }

  std::mt19937_64 random_;
  Arrays arrays_;
  int64_t next_ = 0;
};

Mapping mapping() {
  return Mapping(
      "law",
      {renaming(R"(^old\.)", "model."), renaming(R"(layers\.(\d+)\.)", R"(blocks.\1.)"),
       converter({".experts.*.w1.weight", ".experts.*.w3.weight"}, {".experts.gate_up"},
                 {make_merge_modulelist(0), make_concatenate(1)}),
       converter({".experts.*.w2.weight"}, {".experts.down"}, {make_merge_modulelist(0)}),
       converter(
           {"attn.qkv"}, {"attn.q", "attn.k", "attn.v"},
           {make_chunk(0),
            make_permute_for_rope({.num_heads = 2, .permute_layer_names = {"attn.q", "attn.k"}})}),
       converter({"gate.weight"}, {"router.weight"}, {make_transpose(0, 1)}),
       converter({"mix.weight"}, {"mixed"}, {make_interleave(0, false)})});
}

class Law : public ::testing::TestWithParam<uint64_t> {};

TEST_P(Law, ReversedUndoesForward) {
  const uint64_t seed = testing::test_seed() + GetParam();
  SCOPED_TRACE("seed " + std::to_string(seed));
  const Arrays stored = RandomCheckpoint(seed).tensors();
  const auto loaded = apply_mapping(mapping(), leaves_of(stored), {});
  ASSERT_TRUE(loaded.findings.empty()) << loaded.findings[0].message;
  const auto saved = apply_mapping(mapping().reversed(), loaded.tensors, {});
  ASSERT_TRUE(saved.findings.empty()) << saved.findings[0].message;
  EXPECT_EQ(gather(saved, stored), stored);
}

INSTANTIATE_TEST_SUITE_P(Seeds, Law, ::testing::Range<uint64_t>(0, 25));

}  // namespace
}  // namespace weightloom
