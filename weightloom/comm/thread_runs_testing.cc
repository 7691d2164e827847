#include "weightloom/comm/group_runs_testing.h"
#include "weightloom/comm/thread_group.h"

namespace weightloom::testing {

void on_every_rank(const std::function<void(ProcessGroup&)>& body) {
  run_on_threads(kTestRanks, body);
}

}  // namespace weightloom::testing
