#include "weightloom/cli/convert_summary.h"

#include <gtest/gtest.h>

namespace weightloom::cli {
namespace {

FinishedConversion four_files() {
  FinishedConversion run;
  run.destination = "out";
  run.mapping = "mixtral";
  run.from = Side::hub;
  run.to = Side::runtime;
  run.report.files = {"a", "b", "c", "d"};
  run.report.files_linked = 3;
  run.report.files_written = 1;
  run.report.targets = 291;
  run.report.target_bytes = int64_t{17} << 28;
  run.seconds = 1.84;
  return run;
}

TEST(ConvertSummary, IsOneLineOfWhatWasDone) {
  EXPECT_EQ(convert_line(four_files()),
            "out: 291 tensors in 4 files (3 linked, 1 written), 4.25 GiB, 1.8 s, mapping mixtral, "
            "hub → runtime\n");
}

TEST(ConvertSummary, SaysWhatWasRenamedCopiedAndResumed) {
  FinishedConversion run = four_files();
  run.to = Side::hub;
  run.renamed = 7;
  run.report.files_linked = 0;
  run.report.files_copied = 4;
  run.report.files_written = 0;
  run.report.resumed_bytes = 5;
  EXPECT_EQ(convert_line(run),
            "out: 291 tensors in 4 files (4 copied by the kernel), 4.25 GiB, 1.8 s, of which 5 B "
            "by an earlier run, 7 renamed, hub layout\n");
  run.from = run.to = Side::unknown;
  EXPECT_TRUE(convert_line(run).ends_with(", 7 renamed, same layout\n"));
}

TEST(ConvertSummary, APathDoesNotSteerTheTerminal) {
  FinishedConversion run = four_files();
  run.destination = "o\x1b[31mut";
  EXPECT_TRUE(convert_line(run).starts_with("o\\x1b[31mut: "));
}

}  // namespace
}  // namespace weightloom::cli
