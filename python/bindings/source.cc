#include "source.h"

#include <utility>

namespace weightloom::python {

SourcePtr Source::open(const std::string& path, int threads) {
  return SourcePtr(new Source(Checkpoint::open(system_calls(), path, threads)));
}

SourcePtr Source::in_memory(MemoryCheckpoint memory, std::shared_ptr<const void> owner) {
  std::shared_ptr<Source> source(new Source(memory.checkpoint()));
  source->owner_ = std::move(owner);
  source->memory_ = std::make_unique<const MemoryCheckpoint>(std::move(memory));
  return source;
}

}  // namespace weightloom::python
