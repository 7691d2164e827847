#include "weightloom/cli/failure_output.h"

#include <gtest/gtest.h>

namespace weightloom::cli {
namespace {

TEST(FailureOutputTest, TheClosingLineEndsWithTheNextStep) {
  const Error error(ErrorCode::exists, "out exists", "add --overwrite");
  EXPECT_EQ(closing_line("weightloom convert", error, {}),
            "weightloom convert: out exists; next: add --overwrite\n");
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
