#include <string>

#include <gtest/gtest.h>

#include "weightloom/base/fault_syscalls_testing.h"
#include "weightloom/base/temporary_folder_testing.h"
#include "weightloom/execute/journal_internal.h"
#include "weightloom/safetensors/safetensors_testing.h"

namespace weightloom {
namespace {

class JournalTest : public testing::Test {
 protected:
  std::string path() const { return folder_ / "journal"; }
  std::string text() const { return read_whole_file(system_calls(), path()); }
  std::optional<JournalState> read() const { return read_journal(system_calls(), path()); }
  std::optional<JournalState> read(const std::string& text) const {
    write_file(path(), text);
    return read();
  }

  TemporaryFolder folder_;
};

TEST_F(JournalTest, NoneIsNothing) { EXPECT_FALSE(read()); }

TEST_F(JournalTest, StatesHowFarARunCame) {
  Journal journal = Journal::create(system_calls(), path(), "0123abcd");
  EXPECT_EQ(read()->tiles, 0);
  journal.record_tiles(3);
  journal.record_tiles(120);
  EXPECT_EQ(text(), "weightloom.journal/1 0123abcd\ntiles 3\ntiles 120\n");
  EXPECT_EQ(read()->fingerprint, "0123abcd");
  EXPECT_EQ(read()->tiles, 120);
  EXPECT_FALSE(read()->publish);
  journal.record_publish({7, 99});
  EXPECT_EQ(read()->publish, PathIdentity(7, 99));
  EXPECT_EQ(read()->tiles, 120);
}

TEST_F(JournalTest, TellsHowFilesComeAbout) {
  Journal journal = Journal::create(system_calls(), path(), "ab");
  EXPECT_EQ(read()->files, "");
  journal.record_files("lwc");
  journal.record_tiles(3);
  EXPECT_EQ(text(), "weightloom.journal/1 ab\nfiles lwc\ntiles 3\n");
  EXPECT_EQ(read()->files, "lwc");
  EXPECT_EQ(read()->tiles, 3);
}

TEST_F(JournalTest, FilesThatAreNotWrittenAreRecordedDurably) {
  FaultSyscalls calls;
  Journal journal = Journal::create(calls, path(), "ab");
  sync_folder(calls, folder_.path());
  journal.record_files("wl");
  calls.lose_unsynced_data();
  EXPECT_EQ(read()->files, "wl");
}

TEST_F(JournalTest, ATornLastLineIsIgnored) {
  EXPECT_EQ(read("weightloom.journal/1 ab\ntiles 12\ntiles 34")->tiles, 12);
  EXPECT_EQ(read("weightloom.journal/1 ab\ntiles 12\nti")->tiles, 12);
  EXPECT_FALSE(read("weightloom.journal/1 ab\ntiles 12\npublish 1 2")->publish);
  EXPECT_FALSE(read("weightloom.journal/1 ab"));
}

TEST_F(JournalTest, GarbageIsNoJournal) {
  EXPECT_FALSE(read(""));
  EXPECT_FALSE(read("\n"));
  EXPECT_FALSE(read("weightloom.journal/2 ab\n"));
  EXPECT_FALSE(read("weightloom.journal/1\n"));
  EXPECT_FALSE(read(std::string(100, '\0') + "\n"));
}

TEST_F(JournalTest, ALineThatIsNoneOfOursSaysNothing) {
  const std::string head = "weightloom.journal/1 ab\ntiles 5\n";
  for (const char* line : {"tiles -3\n", "tiles x\n", "tiles\n", "tiles 7 8\n", "tiles 7x\n",
                           "tiles 99999999999999999999\n", "iles 100\n", "publish 5\n"}) {
    const auto state = read(head + line);
    ASSERT_TRUE(state) << line;
    EXPECT_EQ(state->tiles, 5) << line;
    EXPECT_FALSE(state->publish) << line;
  }
}

TEST_F(JournalTest, ZerosOfALostAppendSayNothing) {
  const auto state =
      read("weightloom.journal/1 ab\ntiles 5\n" + std::string(8, '\0') + "\ntiles 6\n");
  EXPECT_EQ(state->tiles, 6);
}

TEST_F(JournalTest, ResumingDropsATornLineAndAnOldPublish) {
  write_file(path(), "weightloom.journal/1 ab\ntiles 5\npublish 1 2\ntiles 1");
  Journal journal = Journal::resume(system_calls(), path(), *read());
  EXPECT_EQ(text(), "weightloom.journal/1 ab\ntiles 5\n");
  journal.record_tiles(6);
  EXPECT_EQ(text(), "weightloom.journal/1 ab\ntiles 5\ntiles 6\n");
}

TEST_F(JournalTest, AResumeCutShortAnywhereLeavesAJournalOrNone) {
  for (const std::string files : {"", "wl"}) {
    const std::string line = files.empty() ? "" : "files " + files + "\n";
    const std::string before =
        "weightloom.journal/1 ab\n" + line + "tiles 9\ntiles 10\npublish 1 2\n";
    for (int64_t call = 0;; ++call) {
      write_file(path(), before);
      FaultSyscalls calls;
      calls.shorten_transfers(5, 1);
      calls.crash_at(call);
      bool done = true;
      try {
        Journal::resume(calls, path(), {"ab", files, 10, std::nullopt});
      } catch (const Error&) {
        done = false;
      }
      const auto state = read();
      ASSERT_TRUE(state) << call;
      EXPECT_EQ(state->fingerprint, "ab");
      EXPECT_EQ(state->tiles, 10) << text();
      EXPECT_EQ(state->files, files) << text();
      if (done) break;
    }
  }
}

TEST_F(JournalTest, APublishRecordIsDurable) {
  FaultSyscalls calls;
  Journal journal = Journal::create(calls, path(), "ab");
  sync_folder(calls, folder_.path());
  journal.record_tiles(4);
  journal.record_publish({1, 2});
  calls.lose_unsynced_data();
  EXPECT_EQ(read()->publish, PathIdentity(1, 2));
  EXPECT_EQ(read()->tiles, 4);
}

}  // namespace
}  // namespace weightloom
