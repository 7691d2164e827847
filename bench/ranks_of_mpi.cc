#include "bench_ranks.h"
#include "weightloom/comm/mpi_group.h"

namespace weightloom {

const bool kRanksShareProcess = false;

void on_ranks(const std::function<void(ProcessGroup&)>& body) {
  const MpiSession session;
  const auto group = mpi_group();
  run_guarded(*group, [&] { body(*group); });
}

}  // namespace weightloom
