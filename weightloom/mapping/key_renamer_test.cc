#include "weightloom/mapping/key_renamer.h"

#include <gtest/gtest.h>

namespace weightloom {
namespace {

RenamedKey renamed(const WeightTransform& transform, std::string_view key) {
  return KeyRenamer(transform).rename(key);
}

TEST(KeyRenamer, RenamesByThePairThatMatched) {
  const WeightRenaming transform{{"gamma", "beta"}, {"weight", "bias"}};
  EXPECT_EQ(renamed(transform, "norm.gamma"), (RenamedKey{"norm.weight", 0}));
  EXPECT_EQ(renamed(transform, "norm.beta"), (RenamedKey{"norm.bias", 1}));
  EXPECT_EQ(renamed(transform, "norm.other"), (RenamedKey{"norm.other", std::nullopt}));
}

TEST(KeyRenamer, GivesAConvertersFirstTarget) {
  const WeightConverter merging{{"experts.*.w1.weight", "experts.*.w3.weight"}, {"gate_up"}, {}};
  EXPECT_EQ(renamed(merging, "l.experts.7.w3.weight"), (RenamedKey{"l.gate_up", 1}));
  const WeightConverter splitting{{"gate_up"}, {"experts.*.w1.weight"}, {}};
  EXPECT_EQ(renamed(splitting, "l.gate_up"), (RenamedKey{"l.experts.*.w1.weight", 0}));
}

TEST(KeyRenamer, KeepsToTheScope) {
  const WeightRenaming transform{{"^a"}, {"b"}, false, Scope{"vision", ""}};
  EXPECT_EQ(renamed(transform, "vision.a"), (RenamedKey{"vision.b", 0}));
  EXPECT_EQ(renamed(transform, "a"), (RenamedKey{"a", std::nullopt}));
}

TEST(KeyRenamer, AddsAndTakesOffPrefixes) {
  EXPECT_EQ(renamed(PrefixChange{"model", ""}, "x"), (RenamedKey{"model.x", 0}));
  EXPECT_EQ(renamed(PrefixChange{"model", ""}, "model.x"), (RenamedKey{"model.x", std::nullopt}));
  EXPECT_EQ(renamed(PrefixChange{"", "model"}, "model.x"), (RenamedKey{"x", 0}));
}

}  // namespace
}  // namespace weightloom
