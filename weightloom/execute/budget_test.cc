#include "weightloom/execute/budget.h"

#include <cerrno>
#include <cstring>
#include <map>
#include <string>
#include <thread>

#include <gtest/gtest.h>

#include "weightloom/base/forwarding_syscalls_testing.h"

namespace weightloom {
namespace {

constexpr int64_t kMiB = int64_t{1} << 20;

/// A machine whose kernel files say what a test wants.
class Kernel : public ForwardingSyscalls {
 public:
  explicit Kernel(std::map<std::string, std::string> files) : files_(std::move(files)) {}

  int open(const std::string& path, int, uint32_t) const override {
    const auto file = files_.find(path);
    return file == files_.end() ? -ENOENT
                                : 1000 + static_cast<int>(std::distance(files_.begin(), file));
  }
  int close(int) const override { return 0; }
  int64_t pread(int fd, std::span<std::byte> buffer, int64_t) const override {
    const std::string& text = std::next(files_.begin(), fd - 1000)->second;
    std::memcpy(buffer.data(), text.data(), text.size());
    return static_cast<int64_t>(text.size());
  }

 private:
  std::map<std::string, std::string> files_;
};

int64_t budget_with(std::map<std::string, std::string> files) {
  return default_memory_budget(Kernel(std::move(files)));
}

TEST(BudgetTest, IsAnEighthOfASmallCgroup) {
  EXPECT_EQ(budget_with({{"/sys/fs/cgroup/memory.max", "536870912\n"}}), 64 * kMiB);
  EXPECT_EQ(budget_with({{"/sys/fs/cgroup/memory/memory.limit_in_bytes", "536870912\n"}}),
            64 * kMiB);
}

TEST(BudgetTest, NeverFallsBelowSixteenMebibytes) {
  EXPECT_EQ(budget_with({{"/sys/fs/cgroup/memory.max", "1048576\n"}}), 16 * kMiB);
}

TEST(BudgetTest, ACgroupWithoutALimitLeavesTheMachines) {
  const int64_t machine = budget_with({});
  EXPECT_LE(machine, 1024 * kMiB);
  EXPECT_GE(machine, 16 * kMiB);
  EXPECT_EQ(budget_with({{"/sys/fs/cgroup/memory.max", "max\n"}}), machine);
  EXPECT_EQ(budget_with({{"/sys/fs/cgroup/memory.max", ""}}), machine);
  EXPECT_EQ(budget_with({{"/sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n"}}),
            machine);
}

TEST(BudgetTest, TheProcesssOwnGroupAndThoseAboveItCount) {
  EXPECT_EQ(budget_with({{"/proc/self/cgroup", "0::/user.slice/job.scope\n"},
                         {"/sys/fs/cgroup/user.slice/job.scope/memory.max", "536870912\n"}}),
            64 * kMiB);
  EXPECT_EQ(budget_with({{"/proc/self/cgroup", "0::/user.slice/job.scope\n"},
                         {"/sys/fs/cgroup/user.slice/job.scope/memory.max", "max\n"},
                         {"/sys/fs/cgroup/user.slice/memory.max", "268435456\n"}}),
            32 * kMiB);
  EXPECT_EQ(budget_with({{"/proc/self/cgroup", "5:cpu:/x\n7:memory:/job\n"},
                         {"/sys/fs/cgroup/memory/job/memory.limit_in_bytes", "536870912\n"}}),
            64 * kMiB);
}

TEST(BudgetTest, ThreadsAreFourOrTheCoresIfMore) {
  EXPECT_GE(default_threads(), 4);
  EXPECT_GE(default_threads(), static_cast<int>(std::thread::hardware_concurrency()));
}

int64_t resident_with(std::map<std::string, std::string> files) {
  return resident_bytes(Kernel(std::move(files)));
}

TEST(BudgetTest, ResidentBytesAreTheSecondNumberInPages) {
  EXPECT_EQ(resident_with({{"/proc/self/statm", "900 3 1 1 0 1 0\n"}}) % 3, 0);
  EXPECT_GT(resident_with({{"/proc/self/statm", "900 3 1 1 0 1 0\n"}}), 0);
  EXPECT_EQ(resident_with({}), 0);
  EXPECT_EQ(resident_with({{"/proc/self/statm", "900"}}), 0);
  EXPECT_GT(resident_bytes(system_calls()), kMiB);
}

}  // namespace
}  // namespace weightloom
