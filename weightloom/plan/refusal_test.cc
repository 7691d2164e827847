#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "weightloom/plan/conversion.h"

namespace weightloom {
namespace {

using ::testing::HasSubstr;
using ::testing::StrEq;

Finding finding(Severity severity, std::string code, std::string message) {
  return {severity, std::move(code), "t", "", std::move(message)};
}

TEST(RefusalTest, SaysTheFirstFaultAndCountsTheOthers) {
  const Error error = refusal_of({finding(Severity::report, "unused_file", "a note"),
                                  finding(Severity::error, "index_gap", "expert 7 is missing"),
                                  finding(Severity::error, "missing_source", "another"),
                                  finding(Severity::strict, "unexpected", "a third")},
                                 false);
  EXPECT_EQ(error.code(), ErrorCode::plan);
  EXPECT_THAT(error.what(), StrEq("expert 7 is missing (and 2 more)"));
  EXPECT_THAT(error.next_step(), HasSubstr("complete the checkpoint"));
  EXPECT_EQ(error.findings().size(), 4U);
}

TEST(RefusalTest, LenientFindingsDoNotCount) {
  const Error error = refusal_of({finding(Severity::strict, "unexpected", "first"),
                                  finding(Severity::error, "target_count", "second")},
                                 true);
  EXPECT_THAT(error.what(), StrEq("second"));
  EXPECT_THAT(error.next_step(), HasSubstr("--mapping NAME|FILE.json|none"));
}

TEST(RefusalTest, EachKindOfFaultHasItsOwnWayOut) {
  const auto step = [](const std::string& code) {
    return refusal_of({finding(Severity::error, code, "x")}, false).next_step();
  };
  EXPECT_THAT(step("companion_refused"), HasSubstr("--to same"));
  EXPECT_THAT(step("nothing_selected"), HasSubstr("--include"));
  EXPECT_THAT(step("not_in_record"), HasSubstr("--mapping NAME"));
}

}  // namespace
}  // namespace weightloom
