// Counts the ranks, and sees that an error of the last one reaches all.
#include <cstdio>

#include "weightloom/comm/agreement.h"
#include "weightloom/comm/mpi_group.h"

int main() {
  const weightloom::MpiSession session;
  const auto group = weightloom::mpi_group();
  const int64_t ranks = group->all_reduce(weightloom::Reduction::sum, 1);
  try {
    weightloom::run_agreed(*group, [&] {
      if (group->rank() + 1 < ranks) return;
      throw weightloom::Error(weightloom::ErrorCode::no_space, "the disk is full");
    });
  } catch (const weightloom::Error& error) {
    std::printf("%lld ranks; %s\n", static_cast<long long>(ranks), error.what());
    return 0;
  }
  return 1;
}
