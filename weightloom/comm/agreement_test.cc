#include "weightloom/comm/agreement.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "weightloom/base/error_testing.h"
#include "weightloom/comm/group_runs_testing.h"

namespace weightloom::testing {
namespace {

using ::testing::ElementsAre;

TEST(AgreementTest, AnErrorOfOneIsAnErrorOfAll) {
  on_every_rank([](ProcessGroup& group) {
    agree(group, std::nullopt);
    const auto refusal = refusal_of([&] {
      run_agreed(group, [&] {
        if (group.rank() != 3) return;
        throw Error(ErrorCode::plan, "2 findings", "correct them",
                    {{Severity::strict, "missing_source", "a.weight", "f", "'a.weight' has none"}});
      });
    });
    ASSERT_TRUE(refusal);
    EXPECT_EQ(refusal->code(), ErrorCode::plan);
    EXPECT_STREQ(refusal->what(), "rank 3: 2 findings");
    EXPECT_EQ(refusal->next_step(), "correct them");
    EXPECT_THAT(refusal->findings(),
                ElementsAre(Finding{Severity::strict, "missing_source", "a.weight", "f",
                                    "rank 3: 'a.weight' has none"}));
    group.barrier();  // the group stays usable
  });
}

TEST(AgreementTest, TheFindingsOfAllRanksComeTogether) {
  on_every_rank([](ProcessGroup& group) {
    std::optional<Error> mine;
    if (group.rank() > 0) {
      mine = Error(group.rank() == 1 ? ErrorCode::io : ErrorCode::format, "broken", "",
                   {{Severity::error, "broken", "", "", "it is broken"}});
    }
    const auto refusal = refusal_of([&] { agree(group, mine); });
    ASSERT_TRUE(refusal);
    EXPECT_EQ(refusal->code(), ErrorCode::io) << "that of the first";
    EXPECT_STREQ(refusal->what(), "rank 1: broken (ranks 2, 3 failed too)");
    ASSERT_EQ(refusal->findings().size(), 3U);
    EXPECT_EQ(refusal->findings().back().message, "rank 3: it is broken");
  });
}

TEST(AgreementTest, RanksThatDifferAreNamedToAll) {
  on_every_rank([](ProcessGroup& group) {
    require_equal(group, 17, "the plan");
    const auto refusal =
        refusal_of([&] { require_equal(group, group.rank() % 2 == 0 ? 17 : 18, "the plan"); });
    ASSERT_TRUE(refusal);
    EXPECT_EQ(refusal->code(), ErrorCode::plan);
    EXPECT_STREQ(refusal->what(), "ranks 1, 3: the plan is not that of rank 0");
    group.barrier();
  });
}

TEST(AgreementTest, ASubGroupNamesRanksAsTheWorldDoes) {
  on_every_rank([](ProcessGroup& group) {
    if (group.rank() < 2) return;
    const auto half = group.sub_group(std::array<int64_t, 2>{2, 3});
    const auto refusal = refusal_of([&] { require_equal(*half, half->rank() == 0, "the plan"); });
    ASSERT_TRUE(refusal);
    EXPECT_STREQ(refusal->what(), "rank 3: the plan is not that of rank 2");
  });
}

}  // namespace
}  // namespace weightloom::testing
