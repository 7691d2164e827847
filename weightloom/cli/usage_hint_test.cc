#include "weightloom/cli/usage_hint.h"

#include <algorithm>
#include <string>
#include <vector>

#include <gtest/gtest.h>

namespace weightloom::cli {
namespace {

/// What is told of a command line that a program with one verb, `weave SRC [--lenient] [--to X]`,
/// does not take.
std::string hint(std::vector<std::string> arguments) {
  CLI::App app;
  app.require_subcommand(1, 1);
  CLI::App* weave = app.add_subcommand("weave");
  std::string text;
  bool flag = false;
  weave->add_option("SRC", text)->required();
  weave->add_option("--to", text);
  weave->add_flag("--lenient", flag);
  std::reverse(arguments.begin(), arguments.end());
  try {
    app.parse(arguments);
  } catch (const CLI::ParseError& error) {
    const auto verbs = app.get_subcommands();
    return usage_error(app, verbs.empty() ? nullptr : verbs.front(), error).what();
  }
  return "accepted";
}

TEST(UsageHintTest, AMisspeltWordHasASuggestion) {
  EXPECT_EQ(hint({"weave", "a", "--lenint"}), "unknown flag '--lenint'; did you mean '--lenient'?");
  EXPECT_EQ(hint({"waeve", "a"}), "unknown verb 'waeve'; did you mean 'weave'?");
}

TEST(UsageHintTest, AWordFarFromAllHasNone) {
  EXPECT_EQ(hint({"weave", "a", "--quantize=fp8"}), "unknown flag '--quantize'");
}

TEST(UsageHintTest, AnUnknownFlagIsToldBeforeAMissingArgument) {
  EXPECT_EQ(hint({"weave", "--strange"}), "unknown flag '--strange'");
  EXPECT_EQ(hint({"weave"}), "SRC is not given");
}

TEST(UsageHintTest, OneArgumentTooMany) {
  EXPECT_EQ(hint({"weave", "a", "b"}), "one argument too many: 'b'");
  EXPECT_EQ(hint({"weave", "a"}), "accepted");
}

TEST(UsageHintTest, AFlagTakesOneValueOnce) {
  EXPECT_EQ(hint({"weave", "a", "--to"}), "--to needs a value");
  EXPECT_EQ(hint({"weave", "a", "--to", "b", "--to", "c"}), "--to is given more than once");
}

TEST(UsageHintTest, WithoutAVerbTheyAreNamed) { EXPECT_EQ(hint({}), "needed is a verb: weave"); }

}  // namespace
}  // namespace weightloom::cli
