#include "weightloom/cli/command_options.h"

#include <algorithm>
#include <vector>

#include <CLI/CLI.hpp>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "weightloom/base/error.h"

namespace weightloom::cli {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

/// Every shared flag, parsed.
struct Flags {
  std::string path;
  Selection selection;
  OutputOptions output;
  RunFlags run;
  PrintFlags print;
};

Flags parse(std::vector<std::string> arguments) {
  Flags flags;
  CLI::App app;
  add_path(app, "PATH", flags.path, "");
  add_selection_flags(app, flags.selection);
  add_output_flags(app, flags.output);
  add_run_flags(app, flags.run);
  add_json_flag(app, flags.print);
  add_quiet_flag(app, flags.print);
  std::reverse(arguments.begin(), arguments.end());
  app.parse(arguments);
  return flags;
}

TEST(CommandOptionsTest, WithoutFlagsAllIsDefault) {
  const Flags flags = parse({"here"});
  EXPECT_EQ(flags.path, "here");
  EXPECT_EQ(flags.selection.from, Side::unknown);
  EXPECT_EQ(flags.selection.to, std::nullopt);
  EXPECT_EQ(flags.selection.mapping, "auto");
  EXPECT_FALSE(flags.selection.is_partial());
  EXPECT_FALSE(flags.output.max_shard_given);
  EXPECT_EQ(flags.output.max_shard_bytes, 50'000'000'000);
  EXPECT_FALSE(flags.print.json);
}

TEST(CommandOptionsTest, SelectionFlags) {
  const Selection selection =
      parse({"--from", "hub", "--to=runtime", "--mapping", "mixtral", "--lenient", "p"}).selection;
  EXPECT_EQ(selection.from, Side::hub);
  EXPECT_EQ(selection.to, Side::runtime);
  EXPECT_EQ(selection.mapping, "mixtral");
  EXPECT_TRUE(selection.lenient);
}

TEST(CommandOptionsTest, DTypeFlags) {
  const Selection selection =
      parse({"p", "--dtype", "BF16", "--keep-dtype", "*.gate.*", "--keep-dtype", "b"}).selection;
  EXPECT_EQ(selection.dtype, DType::BF16);
  EXPECT_THAT(selection.keep_dtype, ElementsAre("*.gate.*", "b"));
  EXPECT_EQ(parse({"p", "--dtype", "keep"}).selection.dtype, std::nullopt);
  EXPECT_EQ(parse({"p"}).selection.dtype, std::nullopt);
}

TEST(CommandOptionsTest, AGlobFlagTakesOneValueAndRepeats) {
  const Flags flags = parse({"--include", "a*", "path", "--include", "[bc]", "--exclude", "[b,c]"});
  EXPECT_EQ(flags.path, "path");
  EXPECT_THAT(flags.selection.include, ElementsAre("a*", "[bc]"));
  EXPECT_THAT(flags.selection.exclude, ElementsAre("[b,c]"));
}

TEST(CommandOptionsTest, OutputFlags) {
  const OutputOptions output =
      parse({"p", "--max-shard-size", "5GB", "--layout-from", "d", "--overwrite", "--resume"})
          .output;
  EXPECT_EQ(output.max_shard_bytes, 5'000'000'000);
  EXPECT_TRUE(output.max_shard_given);
  EXPECT_EQ(output.layout_from, "d");
  EXPECT_TRUE(output.overwrite);
  EXPECT_TRUE(output.resume);
}

TEST(CommandOptionsTest, RunFlagsWinOverTheSystemsDefaults) {
  const RunOptions run =
      parse({"p", "--memory-budget", "256MiB", "--threads", "3"}).run.run_options(system_calls());
  EXPECT_EQ(run.memory_budget_bytes, int64_t{256} << 20);
  EXPECT_EQ(run.threads, 3);
  EXPECT_GE(parse({"p"}).run.run_options(system_calls()).threads, 4);
}

TEST(CommandOptionsTest, AWrongValueNamesItsFlag) {
  for (const auto& [flag, value] :
       std::vector<std::pair<std::string, std::string>>{{"--to", "nowhere"},
                                                        {"--from", "same"},
                                                        {"--dtype", "I32"},
                                                        {"--dtype", "bfloat16"},
                                                        {"--threads", "0"},
                                                        {"--threads", "2x"},
                                                        {"--max-shard-size", "lots"},
                                                        {"--memory-budget", "0"}}) {
    try {
      parse({"p", flag, value});
      ADD_FAILURE() << flag << " " << value << " was accepted";
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::usage);
      EXPECT_THAT(error.what(), HasSubstr(flag + ": '" + value + "'"));
    }
  }
}

TEST(CommandOptionsTest, AFlagOfOneValueIsGivenOnce) {
  EXPECT_THROW(parse({"p", "--to", "hub", "--to", "runtime"}), CLI::ParseError);
}

}  // namespace
}  // namespace weightloom::cli
