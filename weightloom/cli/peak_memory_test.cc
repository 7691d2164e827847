#include "weightloom/cli/peak_memory.h"

#include <vector>

#include <gtest/gtest.h>

namespace weightloom::cli {
namespace {

TEST(PeakMemoryTest, RemembersMemoryThatIsGivenBack) {
  const size_t size = size_t{64} << 20;
  {
    std::vector<char> large(size);
    volatile char* touched = large.data();  // or an optimizer leaves the memory out
    for (size_t i = 0; i < size; i += 4096) touched[i] = 1;
  }
  EXPECT_GE(peak_resident_bytes(system_calls()), static_cast<int64_t>(size));
}

}  // namespace
}  // namespace weightloom::cli
