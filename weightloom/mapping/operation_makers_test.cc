// A program's own operation: named in JSON, run, reversed.
#include "weightloom/mapping/operation_makers.h"

#include <algorithm>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "weightloom/mapping/mapping_testing.h"
#include "weightloom/mapping/registry.h"

namespace weightloom {
namespace {

using testing::Arrays;
using testing::counting;
using testing::Dense;
using testing::gather;
using ::testing::HasSubstr;
using testing::leaves_of;

/// Swaps the halves of dim 0: its own reverse.
class SwapHalves final : public ConversionOperation {
 public:
  std::string name() const override { return "SwapHalves"; }
  std::vector<Slot> apply(std::vector<Slot> slots, const OperationContext&) const override {
    for (Slot& slot : slots) {
      for (Layout& item : slot.items) {
        const int64_t rows = item.shape().at(0);
        if (rows % 2 != 0) refuse_operation("shape_mismatch", "SwapHalves: odd");
        std::vector<Layout> halves = split(item, 0, std::vector<int64_t>{rows / 2, rows / 2});
        std::swap(halves[0], halves[1]);
        item = concat(halves, 0);
      }
    }
    return slots;
  }
  OperationPtr reverse() const override { return std::make_shared<const SwapHalves>(); }
  std::string to_json() const override { return R"({"op": "SwapHalves"})"; }
};

constexpr std::string_view kMine =
    R"({"format": "weightloom.mapping/1", "name": "mine", "transforms": [
  {"type": "WeightConverter", "source_patterns": ["a"], "target_patterns": ["b"], "operations": [{"op": "SwapHalves"}]}]}
)";

Registry registry_with_mine() {
  Registry registry;
  registry.add_operation("SwapHalves", {{}, [](const OperationParameters&) -> OperationPtr {
                                          return std::make_shared<const SwapHalves>();
                                        }});
  return registry;
}

TEST(OwnOperation, IsReadRunAndReversed) {
  const Mapping mapping = Mapping::parse(kMine, "mine.json", registry_with_mine().operations());
  EXPECT_EQ(mapping.to_json(), kMine);
  const Arrays arrays = {{"a", counting({4})}};
  MappingResult there = apply_mapping(mapping, leaves_of(arrays), ModelConfig());
  EXPECT_EQ(gather(there, arrays).at("b"), (Dense{{4}, {2, 3, 0, 1}}));
  const auto back = apply_mapping(mapping.reversed(), std::move(there.tensors), ModelConfig());
  EXPECT_EQ(gather(back, arrays), arrays);
}

TEST(OwnOperation, RefusesWithItsTensorsNamed) {
  const Mapping mapping = Mapping::parse(kMine, "mine.json", registry_with_mine().operations());
  const Arrays arrays = {{"x.a", counting({3})}};
  const auto findings = apply_mapping(mapping, leaves_of(arrays), ModelConfig()).findings;
  ASSERT_EQ(findings.size(), 1u);
  EXPECT_EQ(findings[0].code, "shape_mismatch");
  EXPECT_EQ(findings[0].message, "'x.b': SwapHalves: odd (of 'x.a' [3])");
}

TEST(OwnOperation, IsUnknownWithoutItsMaker) {
  try {
    Mapping::parse(kMine, "mine.json");
    FAIL();
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), HasSubstr("there is no operation 'SwapHalves'"));
  }
}

TEST(OperationMakers, RefuseATakenName) {
  OperationMakers makers = OperationMakers::built_in();
  EXPECT_THROW(makers.add("Chunk", {}), Error);
}

/// Experts 0 and 1 are the text model's, 2 and 3 the vision model's, of another inner size.
TEST(TextVisionExperts, AreSplitAndFusedAndComeBack) {
  const Mapping mapping = Mapping::parse(
      R"({"format": "weightloom.mapping/1", "name": "ernie", "transforms": [
        {"type": "WeightConverter",
         "source_patterns": ["experts.*.gate.w", "experts.*.up.w"],
         "target_patterns": ["text.gate_up", "vision.gate_up"],
         "operations": [{"op": "ErnieFuseAndSplitTextVisionExperts", "stack_dim": 0, "concat_dim": 1}]}]})",
      "ernie.json");
  Arrays arrays;
  for (int64_t e = 0; e < 4; ++e) {
    const Shape shape{e < 2 ? 2 : 1, 3};
    arrays["experts." + std::to_string(e) + ".gate.w"] = counting(shape, 100 * e);
    arrays["experts." + std::to_string(e) + ".up.w"] = counting(shape, 100 * e + 50);
  }
  MappingResult there = apply_mapping(mapping, leaves_of(arrays), ModelConfig());
  EXPECT_EQ(there.findings.size(), 0u);
  const Arrays made = gather(there, arrays);
  EXPECT_EQ(made.at("text.gate_up"),
            (Dense{{2, 4, 3}, {0,   1,   2,   3,   4,   5,   50,  51,  52,  53,  54,  55,
                               100, 101, 102, 103, 104, 105, 150, 151, 152, 153, 154, 155}}));
  EXPECT_EQ(made.at("vision.gate_up"),
            (Dense{{2, 2, 3}, {200, 201, 202, 250, 251, 252, 300, 301, 302, 350, 351, 352}}));
  const auto back = apply_mapping(mapping.reversed(), std::move(there.tensors), ModelConfig());
  EXPECT_EQ(gather(back, arrays), arrays);
}

TEST(TextVisionExperts, RefuseADimThatIsNotThere) {
  const Mapping mapping = Mapping::parse(
      R"({"format": "weightloom.mapping/1", "name": "m", "transforms": [
        {"type": "WeightConverter", "source_patterns": ["e.*.w"], "target_patterns": ["a", "b"],
         "operations": [{"op": "ErnieFuseAndSplitTextVisionExperts", "stack_dim": 0, "concat_dim": 1000000}]}]})",
      "m.json");
  const Arrays arrays = {{"e.0.w", counting({2, 2})}, {"e.1.w", counting({2, 2})}};
  const auto findings = apply_mapping(mapping, leaves_of(arrays), ModelConfig()).findings;
  ASSERT_EQ(findings.size(), 1u);
  EXPECT_THAT(findings[0].message, HasSubstr("no dim 1000000"));
}

}  // namespace
}  // namespace weightloom
