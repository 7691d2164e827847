// The floors of a row-parallel cut: a rank's part of every row, from all of a folder's safetensors
// files taken as rows of RANKS runs, read by two threads into memory that was written before.
// Prints, for each way, the median of ROUNDS: seconds, bytes kept, GiB/s of these.
//   contiguous   as many bytes in one stretch of each block
//   runs         one pread for each run
//   hull         whole rows into a buffer, and the runs copied from there
#include <cstring>
#include <memory>

#include "bench/parallel_blocks.h"

using namespace weightloom::bench;

namespace {

// What is read at once: small enough to stay in the cache until its runs are copied.
constexpr int64_t kHullBytes = int64_t{1} << 20;

struct Cut {
  int64_t run_bytes = 0;
  int64_t row_bytes = 0;
  int64_t rank = 0;
};

using Way = void (*)(const Block& block, const Cut& cut, char* to);

int64_t kept_bytes(const Block& block, const Cut& cut) {
  return block.size_bytes / cut.row_bytes * cut.run_bytes;
}

void read_contiguous(const Block& block, const Cut& cut, char* to) {
  read_all(block.source, to, kept_bytes(block, cut), block.offset_bytes);
}

void read_runs(const Block& block, const Cut& cut, char* to) {
  const int64_t rows = block.size_bytes / cut.row_bytes;
  for (int64_t row = 0; row < rows; ++row) {
    read_all(block.source, to + row * cut.run_bytes, cut.run_bytes,
             block.offset_bytes + row * cut.row_bytes + cut.rank * cut.run_bytes);
  }
}

void read_hull(const Block& block, const Cut& cut, char* to) {
  thread_local const auto buffer = std::make_unique<char[]>(static_cast<size_t>(kHullBytes));
  const int64_t step_rows = std::max<int64_t>(kHullBytes / cut.row_bytes, 1);
  const int64_t rows = block.size_bytes / cut.row_bytes;
  for (int64_t row = 0; row < rows; row += step_rows) {
    const int64_t some = std::min(step_rows, rows - row);
    const int64_t size = (some - 1) * cut.row_bytes + cut.run_bytes;
    read_all(block.source, buffer.get(), size,
             block.offset_bytes + row * cut.row_bytes + cut.rank * cut.run_bytes);
    for (int64_t i = 0; i < some; ++i) {
      std::memcpy(to + (row + i) * cut.run_bytes, buffer.get() + i * cut.row_bytes,
                  static_cast<size_t>(cut.run_bytes));
    }
  }
}

void measure(const char* name, Way way, const std::vector<Block>& blocks, const Cut& cut,
             int rounds) {
  std::vector<int64_t> places;
  int64_t total = 0;
  for (const Block& block : blocks) {
    places.push_back(total);
    total += kept_bytes(block, cut);
  }
  std::vector<char> memory(static_cast<size_t>(total), 1);
  std::vector<double> seconds;
  for (int i = 0; i < rounds; ++i) {
    const auto start = std::chrono::steady_clock::now();
    for_each_block(
        blocks, [&](const Block& block, size_t b) { way(block, cut, memory.data() + places[b]); });
    seconds.push_back(seconds_since(start));
  }
  std::sort(seconds.begin(), seconds.end());
  const double median = seconds[seconds.size() / 2];
  std::printf("%s %.4f s  %lld bytes  %.2f GiB/s\n", name, median, static_cast<long long>(total),
              static_cast<double>(total) / median / (1 << 30));
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 4) {
    std::fprintf(stderr, "usage: %s FOLDER RUN_BYTES RANKS [ROUNDS]\n", argv[0]);
    return 2;
  }
  const int64_t ranks = std::atoll(argv[3]);
  const Cut cut{std::atoll(argv[2]), std::atoll(argv[2]) * ranks, ranks / 2};
  const int rounds = argc > 4 ? std::atoi(argv[4]) : 5;
  require(cut.run_bytes > 0 && ranks > 0 && rounds > 0 && cut.row_bytes <= kHullBytes, "arguments");
  std::vector<Block> blocks;
  for (const auto& path : files_in(argv[1], ".safetensors")) {
    const int fd = open_file(path, O_RDONLY);
    append_blocks(blocks, fd, -1, 0, size_of(fd));
  }
  measure("contiguous", read_contiguous, blocks, cut, rounds);
  measure("runs", read_runs, blocks, cut, rounds);
  measure("hull", read_hull, blocks, cut, rounds);
}
