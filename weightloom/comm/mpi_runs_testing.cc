// The main program of the tests under MPI.
#include <gtest/gtest.h>

#include "weightloom/comm/group_runs_testing.h"
#include "weightloom/comm/mpi_group.h"

namespace weightloom::testing {

void on_every_rank(const std::function<void(ProcessGroup&)>& body) {
  const auto group = mpi_group();
  run_guarded(*group, [&] { body(*group); });
}

}  // namespace weightloom::testing

int main(int argc, char** argv) {
  ::testing::InitGoogleTest(&argc, argv);
  const weightloom::MpiSession session;
  return RUN_ALL_TESTS();
}
