#include "bench_ranks.h"
#include "weightloom/comm/thread_group.h"

namespace weightloom {

const bool kRanksShareProcess = true;

void on_ranks(const std::function<void(ProcessGroup&)>& body) { run_on_threads(4, body); }

}  // namespace weightloom
