// Bytes become a seed, a scale, limits and a number of threads; the executor must make of the
// random program what the reference interpreter makes of it, within its limits.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <span>
#include <string>

#include "weightloom/base/forwarding_syscalls_testing.h"
#include "weightloom/execute/executor_testing.h"
#include "weightloom/plan/random_program_testing.h"

namespace {

using namespace weightloom;

/// The source files of a program, in memory: file i is called "i".
class MemoryFiles : public ForwardingSyscalls {
 public:
  explicit MemoryFiles(const std::vector<Bytes>& files) : files_(files) {}

  int open(const std::string& path, int, uint32_t) const override { return std::stoi(path); }
  int close(int) const override { return 0; }
  StatResult fstat(int) const override { return {}; }
  int64_t pread(int fd, std::span<std::byte> buffer, int64_t offset) const override {
    const std::span<const std::byte> file(files_.at(static_cast<size_t>(fd)));
    const auto rest = file.subspan(std::min(static_cast<size_t>(offset), file.size()));
    const size_t size = std::min(rest.size(), buffer.size());
    if (size > 0) std::memcpy(buffer.data(), rest.data(), size);
    return static_cast<int64_t>(size);
  }
  int64_t preadv(int fd, std::span<const std::span<std::byte>> buffers,
                 int64_t offset) const override {
    return pread(fd, buffers.front(), offset);  // a short read, as any read may be
  }

 private:
  const std::vector<Bytes>& files_;
};

template <typename T>
T take(std::span<const uint8_t>& bytes) {
  T value{};
  const size_t size = std::min(sizeof(T), bytes.size());
  if (size > 0) std::memcpy(&value, bytes.data(), size);
  bytes = bytes.subspan(size);
  return value;
}

void require(bool fact) {
  if (!fact) std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  std::span<const uint8_t> bytes(data, size);
  const auto seed = take<uint64_t>(bytes);
  const int64_t scale = 1 + take<uint8_t>(bytes) % 24;
  ScheduleLimits limits;
  limits.tile_bytes = 1 + take<uint16_t>(bytes) % 5000;
  limits.worker_bytes =
      std::max<int64_t>(2 * limits.tile_bytes + take<uint16_t>(bytes), 16);  // one element
  RunOptions options;
  options.threads = 1 + take<uint8_t>(bytes) % 2;

  const testing::RandomProgram random = testing::random_program(seed, scale, "");
  const MemoryFiles files(random.files);
  testing::CollectSink sink(random.program);
  const auto tiles = make_schedule(random.program, testing::own_spaces(random.program), limits);
  const RunStatistics done = execute(files, random.program, tiles, 0, limits, sink, options);
  require(sink.targets() == random.expected());
  const int64_t most = limits.worker_bytes + 4096;  // a lent tile may begin anywhere in a page
  require(done.peak_working_bytes <= options.threads * most);
  return 0;
}
