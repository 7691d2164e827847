#include "weightloom/cli/failure_output.h"

#include <gtest/gtest.h>

namespace weightloom::cli {
namespace {

TEST(FailureOutputTest, TheClosingLineEndsWithTheNextStep) {
  const Error error(ErrorCode::exists, "out exists", "add --overwrite");
  EXPECT_EQ(closing_line("weightloom convert", error, {}),
            "weightloom convert: out exists; next: add --overwrite\n");
}

TEST(FailureOutputTest, AQuestionIsNotFollowedByASemicolon) {
  const Error error(ErrorCode::mapping, "did you mean mixtral?", "see the list");
  EXPECT_EQ(closing_line("weightloom", error, {}),
            "weightloom: did you mean mixtral? next: see the list\n");
}

TEST(FailureOutputTest, FindingsComeBeforeTheClosingLine) {
  const Finding gone = {Severity::error, "missing_source", "t", "f", "t is gone"};
  const Finding note = {Severity::report, "unused_file", "", "g", "g is not used"};
  EXPECT_EQ(failure_text("w", Error(ErrorCode::plan, "t is gone", "", {gone, note}), false, {}),
            "error [missing_source]: t is gone\nnote [unused_file]: g is not used\n"
            "w: t is gone\n");
}

TEST(FailureOutputTest, OneFindingIsToldOnce) {
  const Finding gone = {Severity::error, "missing_source", "t", "f", "t is gone"};
  EXPECT_EQ(failure_text("w", Error(ErrorCode::plan, "dir: t is gone", "mend", {gone}), false, {}),
            "w: dir: t is gone; next: mend\n");
}

TEST(FailureOutputTest, WrongUsagePointsToTheHelp) {
  EXPECT_EQ(closing_line("weightloom plan", Error(ErrorCode::usage, "SRC is not given"), {}),
            "weightloom plan: SRC is not given; see weightloom plan --help\n");
}

TEST(FailureOutputTest, JsonCarriesTheFindings) {
  const Error error(ErrorCode::plan, "no", "mend it",
                    {{Severity::error, "missing_source", "t", "f", "gone"}});
  EXPECT_EQ(failure_json(error),
            R"({"error":{"code":"plan","message":"no","next_step":"mend it"},)"
            R"("findings":[{"severity":"error","code":"missing_source","tensor":"t",)"
            R"("file":"f","message":"gone"}]})"
            "\n");
}

}  // namespace
}  // namespace weightloom::cli
