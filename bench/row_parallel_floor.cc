// The floor of a row-parallel cut: a rank's run of every row, from all of a folder's safetensors
// files taken as rows of RANKS runs, read by two threads into new memory on huge pages, in one of
// these ways:
//   contiguous   as many bytes in one stretch of each block
//   runs         one pread for each run
//   hull         whole rows into a buffer, and the runs copied from there
// Prints seconds, bytes kept and GiB/s of these.
#include <cstring>
#include <memory>
#include <string_view>

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

Way way_of(std::string_view name) {
  if (name == "contiguous") return read_contiguous;
  if (name == "runs") return read_runs;
  return name == "hull" ? read_hull : nullptr;
}

}  // namespace

int main(int argc, char** argv) {
  const Way way = argc == 5 ? way_of(argv[4]) : nullptr;
  if (way == nullptr) {
    std::fprintf(stderr, "usage: %s FOLDER RUN_BYTES RANKS contiguous|runs|hull\n", argv[0]);
    return 2;
  }
  const int64_t ranks = std::atoll(argv[3]);
  const Cut cut{std::atoll(argv[2]), std::atoll(argv[2]) * ranks, ranks / 2};
  const auto start = std::chrono::steady_clock::now();
  std::vector<Block> blocks;
  std::vector<int64_t> places;
  int64_t total = 0;
  for (const auto& path : files_in(argv[1], ".safetensors")) {
    const int fd = open_file(path, O_RDONLY);
    append_blocks(blocks, fd, -1, 0, size_of(fd));
    while (places.size() < blocks.size()) {
      places.push_back(total);
      total += kept_bytes(blocks[places.size() - 1], cut);
    }
  }
  char* memory = map_huge(total);
  for_each_block(blocks,
                 [&](const Block& block, size_t i) { way(block, cut, memory + places[i]); });
  const double seconds = seconds_since(start);
  std::printf("%.4f s  %lld bytes  %.2f GiB/s\n", seconds, static_cast<long long>(total),
              static_cast<double>(total) / seconds / (1 << 30));
}
