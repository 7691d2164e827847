#include "weightloom/mapping/operation.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "weightloom/base/error.h"
#include "weightloom/mapping/mapping_testing.h"

namespace weightloom {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using Array = testing::Dense;
using testing::counting;
using testing::gather;

/// Runs an operation on whole tensors; a list where `is_list`.
class Operation {
 public:
  explicit Operation(OperationPtr operation, int targets = 1) : operation_(std::move(operation)) {
    context_.targets = targets;
    context_.target_patterns.assign(static_cast<size_t>(targets), "target");
    context_.config = &config_;
  }

  Operation& config(std::string_view json) {
    config_ = ModelConfig::parse(json, "config.json");
    return *this;
  }

  /// Slots of results, flattened.
  std::vector<Array> on(std::vector<Array> arrays, bool is_list = false,
                        const std::string& pattern = "source") {
    std::vector<Slot> slots;
    for (const auto& array : arrays) {
      if (slots.empty() || !is_list) slots.push_back({{}, is_list, pattern});
      slots.back().items.push_back(identity(next_++, array.shape));
    }
    next_ = 0;
    slots = operation_->apply(std::move(slots), context_);
    std::vector<Array> results;
    for (const auto& slot : slots) {
      for (const auto& item : slot.items) results.push_back(gather(item, arrays));
    }
    return results;
  }

  std::string refusal(std::vector<Array> arrays, std::string_view code, bool is_list = false) {
    try {
      on(std::move(arrays), is_list);
    } catch (const Error& error) {
      EXPECT_EQ(error.findings().at(0).code, code);
      return error.what();
    }
    return "(accepted)";
  }

 private:
  OperationPtr operation_;
  ModelConfig config_;
  OperationContext context_;
  SourceId next_ = 0;
};

/// Element [i, j] of a matrix.
int64_t at(const Array& a, int64_t i, int64_t j) {
  return a.values.at(static_cast<size_t>(i * a.shape.at(1) + j));
}

TEST(Chunk, CutsIntoEqualPartsInOrder) {
  const auto parts = Operation(make_chunk(0), 3).on({counting({6, 2})});
  EXPECT_THAT(parts, ElementsAre(counting({2, 2}, 0), counting({2, 2}, 4), counting({2, 2}, 8)));
}

TEST(Chunk, RefusesADimThatDoesNotDivide) {
  EXPECT_THAT(Operation(make_chunk(0), 3).refusal({counting({7, 2})}, "shape_mismatch"),
              HasSubstr("dim 0 of [7, 2] does not divide into 3 equal parts"));
  EXPECT_THAT(Operation(make_chunk(2), 3).refusal({counting({6, 2})}, "shape_mismatch"),
              HasSubstr("there is no dim 2 in a tensor of shape [6, 2]"));
  EXPECT_THAT(
      Operation(make_chunk(0), 3).refusal({counting({6}), counting({6})}, "operation_refused"),
      HasSubstr("takes one tensor, but was given 2"));
}

TEST(Split, CutsIntoPartsOfGivenSizes) {
  const auto parts = Operation(make_split(0, {1, 3, 0}), 3).on({counting({4})});
  EXPECT_THAT(parts, ElementsAre(counting({1}), counting({3}, 1), counting({0})));
  EXPECT_THAT(Operation(make_split(0, {1, 2}), 2).refusal({counting({4})}, "shape_mismatch"),
              HasSubstr("sizes [1, 2] add up to 3, but dim 0 of [4] has 4"));
}

TEST(Concatenate, JoinsSlotsInOrder) {
  const auto whole = Operation(make_concatenate(1)).on({counting({2, 1}), counting({2, 2}, 10)});
  EXPECT_THAT(whole, ElementsAre(Array{{2, 3}, {0, 10, 11, 1, 12, 13}}));
}

TEST(Concatenate, JoinsTheItemsOfAList) {
  const auto whole = Operation(make_concatenate(0)).on({counting({1}), counting({2}, 5)}, true);
  EXPECT_THAT(whole, ElementsAre(Array{{3}, {0, 5, 6}}));
}

TEST(Concatenate, RefusesPartsThatDoNotFit) {
  EXPECT_THAT(
      Operation(make_concatenate(1))
          .refusal({counting({2, 1}), counting({3, 1})}, "shape_mismatch"),
      HasSubstr("tensor 1 has shape [3, 1], but tensor 0 has [2, 1] (only dim 1 may differ)"));
  EXPECT_THAT(Operation(make_concatenate(0, {2, 2}))
                  .refusal({counting({2}), counting({3})}, "shape_mismatch"),
              HasSubstr("the parts have sizes [2, 3] along dim 0, but sizes says [2, 2]"));
}

TEST(MergeModulelist, StacksAlongANewDim) {
  const auto whole =
      Operation(make_merge_modulelist(1)).on({counting({2}), counting({2}, 5)}, true);
  EXPECT_THAT(whole, ElementsAre(Array{{2, 2}, {0, 5, 1, 6}}));
}

TEST(MergeModulelist, HoldsTheListToTheCountOfTheConfig) {
  Operation merge(make_merge_modulelist(0, {"absent", "num_experts"}));
  EXPECT_EQ(merge.on({counting({2})}, true).size(), 1u);
  merge.config(R"({"text_config": {"num_experts": 2}})");
  EXPECT_THAT(merge.refusal({counting({2})}, "count_mismatch", true),
              HasSubstr("there are 1 items, but config.json says num_experts = 2"));
  EXPECT_EQ(merge.on({counting({2}), counting({2})}, true).size(), 1u);
}

TEST(MergeModulelist, RefusesWhatIsNoListOfEqualShapes) {
  EXPECT_THAT(Operation(make_merge_modulelist(0)).refusal({counting({2})}, "operation_refused"),
              HasSubstr("'source' collects none"));
  EXPECT_THAT(Operation(make_merge_modulelist(0))
                  .refusal({counting({2}), counting({3})}, "shape_mismatch", true),
              HasSubstr("tensor 1 has shape [3], but tensor 0 has [2]"));
}

TEST(SplitModulelist, GivesTheItemsOfADim) {
  const auto items = Operation(make_split_modulelist(1)).on({counting({2, 3})});
  EXPECT_THAT(items, ElementsAre(Array{{2}, {0, 3}}, Array{{2}, {1, 4}}, Array{{2}, {2, 5}}));
  EXPECT_THAT(Operation(make_split_modulelist(0)).refusal({counting({0, 3})}, "shape_mismatch"),
              HasSubstr("dim 0 of [0, 3] has no items"));
}

TEST(Transpose, SwapsTwoDims) {
  const Array a = counting({2, 3});
  const auto result = Operation(make_transpose(0, 1)).on({a});
  ASSERT_EQ(result[0].shape, (Shape{3, 2}));
  for (int64_t i = 0; i < 3; ++i) {
    for (int64_t j = 0; j < 2; ++j) EXPECT_EQ(at(result[0], i, j), at(a, j, i));
  }
}

TEST(CheckedTranspose, BringsATensorToTheDeclaredShape) {
  Operation checked(make_checked_transpose(0, 1, {"rows", 3}));
  checked.config(R"({"rows": 2})");
  const Array wanted = counting({2, 3});
  EXPECT_THAT(checked.on({wanted}), ElementsAre(wanted));
  EXPECT_THAT(checked.on({Array{{3, 2}, {0, 3, 1, 4, 2, 5}}}), ElementsAre(wanted));
  EXPECT_THAT(checked.refusal({counting({2, 4})}, "shape_mismatch"),
              HasSubstr("[2, 4] is neither [2, 3], which config.json declares, nor that"));
  checked.config("{}");
  EXPECT_THAT(checked.refusal({wanted}, "operation_refused"), HasSubstr("no number for 'rows'"));
}

/// Both ways of storing a square look alike.
TEST(CheckedTranspose, DoesNotGuessOfSquares) {
  Operation checked(make_checked_transpose(0, 1, {2, 2}));
  EXPECT_THAT(checked.refusal({counting({2, 2})}, "operation_refused"),
              HasSubstr("dims 0 and 1 of [2, 2] are equal"));
}

TEST(CheckedTranspose, BackwardsStaysAsTheModelHasIt) {
  const auto back = make_checked_transpose(0, 1, {2, 3})->reverse();
  EXPECT_THAT(Operation(back).on({counting({2, 3})}), ElementsAre(counting({2, 3})));
  EXPECT_THAT(Operation(back).refusal({counting({3, 2})}, "shape_mismatch"),
              HasSubstr("[3, 2] is not [2, 3]"));
  EXPECT_EQ(back->reverse()->to_json(), make_checked_transpose(0, 1, {2, 3})->to_json());
}

TEST(Interleave, TakesPairsApartAndBack) {
  const auto apart = Operation(make_interleave(0, false)).on({counting({6})});
  EXPECT_THAT(apart, ElementsAre(Array{{6}, {0, 2, 4, 1, 3, 5}}));
  const auto together = Operation(make_interleave(0, true)).on({counting({6})});
  EXPECT_THAT(together, ElementsAre(Array{{6}, {0, 3, 1, 4, 2, 5}}));
  EXPECT_THAT(Operation(make_interleave(1, false)).refusal({counting({2, 3})}, "shape_mismatch"),
              HasSubstr("dim 1 of [2, 3] is odd"));
}

/// Row a·2h + j·h + i of the result is row a·2h + i·2 + j.
TEST(PermuteForRope, OrdersTheRowsOfEachHead) {
  const Array a = counting({8, 3});
  const auto result = Operation(make_permute_for_rope({.num_heads = 2})).on({a});
  ASSERT_EQ(result[0].shape, a.shape);
  for (int64_t head = 0; head < 2; ++head) {
    for (int64_t i = 0; i < 2; ++i) {
      for (int64_t j = 0; j < 2; ++j) {
        for (int64_t c = 0; c < 3; ++c) {
          EXPECT_EQ(at(result[0], 4 * head + 2 * j + i, c), at(a, 4 * head + 2 * i + j, c));
        }
      }
    }
  }
}

TEST(PermuteForRope, TakesVectorsAndTheirInverse) {
  Operation inverse(make_permute_for_rope({.num_heads = 1, .inverse = true}));
  EXPECT_THAT(inverse.on({counting({6})}), ElementsAre(Array{{6}, {0, 3, 1, 4, 2, 5}}));
}

TEST(PermuteForRope, ReadsTheNumberOfHeadsWhereItIsDeclared) {
  Operation rope(make_permute_for_rope({.num_heads = "heads", .subconfig_key = "vision"}));
  rope.config(R"({"heads": 2, "vision": {"heads": 1}})");
  EXPECT_THAT(rope.on({counting({4})}), ElementsAre(Array{{4}, {0, 2, 1, 3}}));
  rope.config(R"({"heads": 1})");  // of the vision model alone
  EXPECT_THAT(rope.on({counting({4})}), ElementsAre(Array{{4}, {0, 2, 1, 3}}));
  rope.config(R"({"heads": 2, "text_config": {"heads": 2}})");
  EXPECT_THAT(rope.refusal({counting({4})}, "operation_refused"),
              HasSubstr("no number of heads under 'vision.heads'"));
}

TEST(PermuteForRope, ActsOnTheNamedLayersOnly) {
  Operation rope(make_permute_for_rope({.num_heads = 1, .permute_layer_names = {"q_proj"}}));
  EXPECT_THAT(rope.on({counting({4})}, false, "a.v_proj"), ElementsAre(counting({4})));
  EXPECT_THAT(rope.on({counting({4})}, false, "a.q_proj"), ElementsAre(Array{{4}, {0, 2, 1, 3}}));
}

/// Query heads and key heads differ in number: each layer has its own.
TEST(PermuteForRope, TakesANumberOfHeadsPerLayer) {
  Operation rope(make_permute_for_rope(
      {.num_heads_of = {{"q_proj", "num_attention_heads"}, {"k_proj", "num_key_value_heads"}}}));
  rope.config(R"({"num_attention_heads": 2, "num_key_value_heads": 1})");
  EXPECT_THAT(rope.on({counting({8})}, false, "q_proj"),
              ElementsAre(Array{{8}, {0, 2, 1, 3, 4, 6, 5, 7}}));
  EXPECT_THAT(rope.on({counting({8})}, false, "k_proj"),
              ElementsAre(Array{{8}, {0, 2, 4, 6, 1, 3, 5, 7}}));
  EXPECT_THAT(rope.on({counting({8})}, false, "v_proj"), ElementsAre(counting({8})));
}

TEST(PermuteForRope, RefusesHeadsThatDoNotFit) {
  Operation rope(make_permute_for_rope({.num_heads = 3}));
  EXPECT_THAT(rope.refusal({counting({8})}, "shape_mismatch"),
              HasSubstr("8 rows do not divide into 3 heads of an even size"));
  EXPECT_THAT(rope.refusal({counting({9})}, "shape_mismatch"), HasSubstr("9 rows"));
  EXPECT_THAT(rope.refusal({counting({6, 1, 1})}, "shape_mismatch"), HasSubstr("[6, 1, 1]"));
}

TEST(Split, TakesSizesFromTheConfig) {
  Operation split(make_split(0, {"heads*head_dim", "kv*head_dim", "kv*head_dim|1"}), 3);
  split.config(R"({"heads": 2, "head_dim": 2, "kv": 1})");
  EXPECT_THAT(split.on({counting({8})}),
              ElementsAre(Array{{4}, {0, 1, 2, 3}}, Array{{2}, {4, 5}}, Array{{2}, {6, 7}}));
  split.config(R"({"heads": 2, "head_dim": 2})");
  EXPECT_THAT(split.refusal({counting({8})}, "operation_refused"),
              HasSubstr("no number for 'kv*head_dim'"));
}

/// Per group of heads: two query heads, one key head, one value head, of size 1.
TEST(Unflatten, LetsPartsInsideADimBeSplit) {
  const Array fused = counting({8});  // q q k v | q q k v
  Operation apart(make_unflatten(0, {"groups", -1, 1}));
  apart.config(R"({"groups": 2})");
  const auto grouped = apart.on({fused});
  EXPECT_EQ(grouped[0].shape, (Shape{2, 4, 1}));
  const auto parts = Operation(make_split(1, {2, 1, 1}), 3).on({grouped[0]});
  Operation together(make_flatten(0, {2, -1, 1}));
  EXPECT_THAT(together.on({parts[0]}), ElementsAre(Array{{4}, {0, 1, 4, 5}}));
  EXPECT_THAT(together.on({parts[1]}), ElementsAre(Array{{2}, {2, 6}}));
  EXPECT_THAT(together.on({parts[2]}), ElementsAre(Array{{2}, {3, 7}}));
}

TEST(Unflatten, RefusesSizesThatDoNotFit) {
  EXPECT_THAT(Operation(make_unflatten(0, {3, -1})).refusal({counting({8})}, "shape_mismatch"),
              HasSubstr("8 elements are not [3, -1]"));
  EXPECT_THAT(Operation(make_unflatten(0, {2, 3})).refusal({counting({8})}, "shape_mismatch"),
              HasSubstr("8 elements are not [2, 3]"));
  EXPECT_THAT(Operation(make_flatten(1, {2, 2})).refusal({counting({2, 2})}, "shape_mismatch"),
              HasSubstr("no dims 1 to 2"));
  EXPECT_THAT(Operation(make_flatten(0, {4, 1})).refusal({counting({2, 2})}, "shape_mismatch"),
              HasSubstr("dims 0 on of [2, 2] are not [4, 1]"));
  EXPECT_THROW(make_unflatten(0, {}), Error);
  EXPECT_THROW(make_unflatten(0, {-1, -1}), Error);
  EXPECT_THROW(make_unflatten(0, {2, 0}), Error);
}

TEST(Chunk, MakesAListOfAsManyAsTheConfigSays) {
  Operation chunk(make_chunk(0, "parts"));
  chunk.config(R"({"text_config": {"parts": 3}})");
  EXPECT_THAT(chunk.on({counting({6})}),
              ElementsAre(Array{{2}, {0, 1}}, Array{{2}, {2, 3}}, Array{{2}, {4, 5}}));
  EXPECT_THAT(chunk.refusal({counting({7})}, "shape_mismatch"),
              HasSubstr("[7] does not divide into 3 equal parts"));
  chunk.config("{}");
  EXPECT_THAT(chunk.refusal({counting({6})}, "operation_refused"), HasSubstr("'parts'"));
}

TEST(Concatenate, JoinsAList) {
  EXPECT_THAT(Operation(make_concatenate(0, {}, "parts")).on({counting({2}), counting({2})}, true),
              ElementsAre(Array{{4}, {0, 1, 0, 1}}));
}

TEST(Operations, RefuseParametersThatMakeNoSense) {
  EXPECT_THROW(make_chunk(-1), Error);
  EXPECT_THROW(make_split(0, {}), Error);
  EXPECT_THROW(make_split(0, {2, -1}), Error);
  EXPECT_THROW(make_permute_for_rope({.num_heads = 0}), Error);
  EXPECT_THROW(make_concatenate(0, {1, 2}, "parts"), Error);
  EXPECT_THROW(make_checked_transpose(0, 2, {1, 2}), Error);
}

TEST(Operations, NameTheirReverse) {
  EXPECT_EQ(make_chunk(1)->reverse()->to_json(), R"({"op": "Concatenate", "dim": 1})");
  EXPECT_EQ(make_split(0, {2, 3})->reverse()->to_json(),
            R"({"op": "Concatenate", "dim": 0, "sizes": [2, 3]})");
  EXPECT_EQ(make_concatenate(0, {2, 3})->reverse()->name(), "Split");
  EXPECT_EQ(make_concatenate(0)->reverse()->name(), "Chunk");
  EXPECT_EQ(make_merge_modulelist(0, {"n"})->reverse()->to_json(),
            R"({"op": "SplitModulelist", "dim": 0, "count": ["n"]})");
  EXPECT_EQ(make_split_modulelist(2)->reverse()->to_json(),
            R"({"op": "MergeModulelist", "dim": 2})");
  EXPECT_EQ(make_interleave(1, false)->reverse()->to_json(),
            R"({"op": "Interleave", "dim": 1, "inverse": true})");
  EXPECT_EQ(make_transpose(1, 2)->reverse()->to_json(),
            R"({"op": "Transpose", "dim0": 1, "dim1": 2})");
  EXPECT_EQ(make_permute_for_rope({.num_heads = 2})->reverse()->to_json(),
            R"({"op": "PermuteForRope", "num_heads": 2, "inverse": true})");
}

}  // namespace
}  // namespace weightloom
