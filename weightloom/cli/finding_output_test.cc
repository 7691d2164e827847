#include "weightloom/cli/finding_output.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace weightloom::cli {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

Finding finding(Severity severity, std::string code, std::string message) {
  return {severity, std::move(code), "t", "f", std::move(message)};
}

TEST(FindingOutputTest, ErrorsComeFirst) {
  const std::vector<Finding> findings = {finding(Severity::report, "note", "said"),
                                         finding(Severity::error, "bad", "wrong")};
  EXPECT_EQ(findings_text(findings, false, {}), "error [bad]: wrong\nnote [note]: said\n");
}

TEST(FindingOutputTest, LeniencyMakesStrictFindingsNotes) {
  const std::vector<Finding> findings = {finding(Severity::strict, "left", "over")};
  EXPECT_EQ(findings_text(findings, false, {}), "error [left]: over\n");
  EXPECT_EQ(findings_text(findings, true, {}), "note [left]: over\n");
  EXPECT_THAT(group_findings(findings, false).errors, ElementsAre(findings[0]));
  EXPECT_THAT(group_findings(findings, true).errors, IsEmpty());
  EXPECT_THAT(group_findings(findings, true).notes, ElementsAre(findings[0]));
}

TEST(FindingOutputTest, BeyondTwentyOfACodeOnlyTheirNumberIsTold) {
  std::vector<Finding> findings(23, finding(Severity::error, "many", "again"));
  findings.push_back(finding(Severity::error, "one", "once"));
  const std::string text = findings_text(findings, false, {});
  EXPECT_THAT(text, HasSubstr("error [many]: and 3 more; --json lists all\n"));
  EXPECT_THAT(text, HasSubstr("error [one]: once\n"));
  EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), 22);
}

TEST(FindingOutputTest, TwentyOfACodeAreAllShown) {
  const std::vector<Finding> findings(20, finding(Severity::report, "many", "again"));
  EXPECT_THAT(findings_text(findings, false, {}), Not(HasSubstr("more")));
}

TEST(FindingOutputTest, MessagesDoNotSteerTheTerminal) {
  const std::vector<Finding> findings = {finding(Severity::report, "note", "a\x1b[2J")};
  EXPECT_EQ(findings_text(findings, false, {}), "note [note]: a\\x1b[2J\n");
}

TEST(FindingOutputTest, GroupsByCode) {
  const auto groups =
      group_findings(std::vector<Finding>{finding(Severity::error, "missing_source", "1"),
                                          finding(Severity::error, "source_not_used", "2"),
                                          finding(Severity::error, "dtype_mismatch", "3"),
                                          finding(Severity::report, "unknown_mapping", "4")},
                     false);
  EXPECT_THAT(groups.missing, ElementsAre(finding(Severity::error, "missing_source", "1")));
  EXPECT_THAT(groups.unexpected, ElementsAre(finding(Severity::error, "source_not_used", "2")));
  EXPECT_THAT(groups.mismatched, ElementsAre(finding(Severity::error, "dtype_mismatch", "3")));
  EXPECT_EQ(groups.errors.size(), 3);
  EXPECT_THAT(groups.notes, ElementsAre(finding(Severity::report, "unknown_mapping", "4")));
}

TEST(FindingOutputTest, JsonHasAllFields) {
  JsonWriter json;
  write_findings(json, std::vector<Finding>{finding(Severity::error, "bad", "wrong")});
  EXPECT_EQ(std::move(json).finish(),
            R"([{"severity":"error","code":"bad","tensor":"t","file":"f","message":"wrong"}])"
            "\n");
}

}  // namespace
}  // namespace weightloom::cli
