#include <cstring>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "weightloom/base/temporary_folder_testing.h"
#include "weightloom/c_api/c_results_testing.h"
#include "weightloom/safetensors/safetensors_testing.h"
#include "weightloom/version.h"

namespace weightloom::testing {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

class CCheckpoint : public ::testing::Test {
 protected:
  CCheckpoint() {
    write_safetensors(folder_ / "model.safetensors",
                      {{"b", DType::I64, {}, std::string(8, 'b')},
                       {"a.weight", DType::BF16, {3, 1}, std::string(6, 'a')}});
  }

  TemporaryFolder folder_;
};

TEST_F(CCheckpoint, TellsItsTensorsInTheOrderOfNames) {
  OwnedCheckpoint open;
  ASSERT_EQ(wl_checkpoint_open(folder_.path().c_str(), 1, &open.handle, nullptr), WL_OK);
  EXPECT_EQ(wl_checkpoint_tensor_count(open), 2);
  wl_tensor tensor = WL_TENSOR_DEFAULT;
  ASSERT_EQ(wl_checkpoint_tensor(open, 0, &tensor, nullptr), WL_OK);
  EXPECT_STREQ(tensor.name, "a.weight");
  EXPECT_STREQ(tensor.dtype, "BF16");
  EXPECT_THAT(std::vector<int64_t>(tensor.shape, tensor.shape + tensor.rank), ElementsAre(3, 1));
  EXPECT_EQ(tensor.size_bytes, 6);
  ASSERT_EQ(wl_checkpoint_tensor(open, 1, &tensor, nullptr), WL_OK);
  EXPECT_STREQ(tensor.name, "b");
  EXPECT_EQ(tensor.rank, 0);
  EXPECT_EQ(wl_checkpoint_find(open, "b"), 1);
  EXPECT_EQ(wl_checkpoint_find(open, "c"), -1);
  EXPECT_STREQ(wl_checkpoint_findings_json(open), "[]");
}

TEST_F(CCheckpoint, IndexesOutsideAreRefusedWithTheNumbers) {
  OwnedCheckpoint open;
  ASSERT_EQ(wl_checkpoint_open(folder_.path().c_str(), 0, &open.handle, nullptr), WL_OK);
  for (const int64_t index : {int64_t{-1}, int64_t{2}, INT64_MIN, INT64_MAX}) {
    wl_tensor tensor = WL_TENSOR_DEFAULT;
    const Outcome outcome = outcome_of(
        [&](wl_error** error) { return wl_checkpoint_tensor(open, index, &tensor, error); });
    EXPECT_EQ(outcome.status, WL_ERROR_USAGE);
    EXPECT_EQ(outcome.code, "usage");
    EXPECT_EQ(outcome.message, "there is no tensor " + std::to_string(index) + ": there are 2");
    EXPECT_EQ(tensor.name, nullptr);
  }
}

TEST_F(CCheckpoint, NullIsRefusedOrAnsweredEverywhere) {
  wl_checkpoint* none = nullptr;
  EXPECT_EQ(wl_checkpoint_open(nullptr, 0, &none, nullptr), WL_ERROR_USAGE);
  EXPECT_EQ(wl_checkpoint_open("x", 0, nullptr, nullptr), WL_ERROR_USAGE);
  EXPECT_EQ(wl_checkpoint_tensor_count(nullptr), -1);
  EXPECT_EQ(wl_checkpoint_tensor(nullptr, 0, nullptr, nullptr), WL_ERROR_USAGE);
  EXPECT_EQ(wl_checkpoint_find(nullptr, "a"), -1);
  EXPECT_STREQ(wl_checkpoint_findings_json(nullptr), "[]");
  EXPECT_EQ(wl_error_status(nullptr), WL_OK);
  EXPECT_STREQ(wl_error_message(nullptr), "");
  wl_error_free(nullptr);
  wl_checkpoint_free(nullptr);
  wl_checkpoint_free(&none);
}

TEST_F(CCheckpoint, FreeingTwiceDoesNothingTheSecondTime) {
  wl_checkpoint* open = nullptr;
  ASSERT_EQ(wl_checkpoint_open(folder_.path().c_str(), 0, &open, nullptr), WL_OK);
  wl_checkpoint_free(&open);
  EXPECT_EQ(open, nullptr);
  wl_checkpoint_free(&open);

  wl_error* error = nullptr;
  EXPECT_EQ(wl_checkpoint_open(nullptr, 0, &open, &error), WL_ERROR_USAGE);
  wl_error_free(&error);
  wl_error_free(&error);
  EXPECT_EQ(error, nullptr);
}

TEST_F(CCheckpoint, AFailedOpenSaysWhatIsWrongAndGivesNoHandle) {
  auto* open = reinterpret_cast<wl_checkpoint*>(&folder_);  // must be overwritten, not freed
  const Outcome outcome = outcome_of([&](wl_error** error) {
    return wl_checkpoint_open((folder_ / "absent").c_str(), 0, &open, error);
  });
  EXPECT_EQ(outcome.status, WL_ERROR_NOT_FOUND);
  EXPECT_EQ(outcome.code, "not_found");
  EXPECT_THAT(outcome.message, HasSubstr("absent: there is no such file"));
  EXPECT_THAT(outcome.next_step, HasSubstr("give a .safetensors file"));
  EXPECT_EQ(open, nullptr);
}

TEST_F(CCheckpoint, FindingsOfAFailureAreJson) {
  write_file(folder_ / "model.safetensors", "no header");
  const Outcome outcome = outcome_of([&](wl_error** error) {
    wl_checkpoint* open = nullptr;
    return wl_checkpoint_open(folder_.path().c_str(), 0, &open, error);
  });
  EXPECT_EQ(outcome.status, WL_ERROR_FORMAT);
  EXPECT_THAT(outcome.findings,
              HasSubstr(R"([{"severity":"error","code":"malformed_header","tensor":"",)"
                        R"("file":"model.safetensors","message":"model.safetensors: )"));
}

TEST_F(CCheckpoint, StructuresOfOtherSizesAreServedAsFarAsTheyReach) {
  OwnedCheckpoint open;
  ASSERT_EQ(wl_checkpoint_open(folder_.path().c_str(), 0, &open.handle, nullptr), WL_OK);
  // An older header that ended after `dtype`.
  wl_tensor shorter = WL_TENSOR_DEFAULT;
  shorter.struct_size = offsetof(wl_tensor, shape);
  shorter.size_bytes = 77;
  ASSERT_EQ(wl_checkpoint_tensor(open, 0, &shorter, nullptr), WL_OK);
  EXPECT_STREQ(shorter.dtype, "BF16");
  EXPECT_EQ(shorter.size_bytes, 77);
  EXPECT_EQ(shorter.struct_size, offsetof(wl_tensor, shape));
  // A newer one that goes on: what this library does not know stays as it was.
  struct Longer {
    wl_tensor known;
    int64_t later;
  };
  Longer longer = {WL_TENSOR_DEFAULT, 5};
  longer.known.struct_size = sizeof(Longer);
  ASSERT_EQ(wl_checkpoint_tensor(open, 0, &longer.known, nullptr), WL_OK);
  EXPECT_EQ(longer.known.size_bytes, 6);
  EXPECT_EQ(longer.later, 5);
}

TEST_F(CCheckpoint, AStructureWithoutItsSizeIsRefused) {
  OwnedCheckpoint open;
  ASSERT_EQ(wl_checkpoint_open(folder_.path().c_str(), 0, &open.handle, nullptr), WL_OK);
  wl_tensor zero;
  std::memset(&zero, 0, sizeof zero);
  const Outcome outcome =
      outcome_of([&](wl_error** error) { return wl_checkpoint_tensor(open, 0, &zero, error); });
  EXPECT_EQ(outcome.status, WL_ERROR_USAGE);
  EXPECT_EQ(outcome.message, "tensor: struct_size is 0");
}

TEST_F(CCheckpoint, ThreadsOutsideTheirRangeAreRefused) {
  const Outcome outcome = outcome_of([&](wl_error** error) {
    wl_checkpoint* open = nullptr;
    return wl_checkpoint_open(folder_.path().c_str(), -2, &open, error);
  });
  EXPECT_EQ(outcome.message, "threads is -2: no number from 0 to 1024");
}

TEST(CVersion, IsTheVersionOfTheHeaders) {
  EXPECT_STREQ(wl_version(), WEIGHTLOOM_VERSION);
  EXPECT_EQ(version(), WEIGHTLOOM_VERSION);
  EXPECT_EQ(std::string(WEIGHTLOOM_VERSION), std::to_string(WEIGHTLOOM_VERSION_MAJOR) + "." +
                                                 std::to_string(WEIGHTLOOM_VERSION_MINOR) + "." +
                                                 std::to_string(WEIGHTLOOM_VERSION_PATCH));
}

}  // namespace
}  // namespace weightloom::testing
