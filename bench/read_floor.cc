// The floor of loading: every tensor byte of a folder's safetensors files, read by two threads with
// plain pread into one mapping on huge pages. Prints seconds, bytes and GiB/s.
#include "bench/parallel_blocks.h"

using namespace weightloom::bench;

namespace {

int64_t data_begin(int fd) {
  uint64_t header_bytes = 0;
  read_all(fd, reinterpret_cast<char*>(&header_bytes), 8, 0);
  return 8 + static_cast<int64_t>(header_bytes);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) {
    std::fprintf(stderr, "usage: %s FOLDER\n", argv[0]);
    return 2;
  }
  const auto start = std::chrono::steady_clock::now();
  std::vector<Block> blocks;
  std::vector<int64_t> places;
  int64_t total = 0;
  for (const auto& path : files_in(argv[1], ".safetensors")) {
    const int fd = open_file(path, O_RDONLY);
    append_blocks(blocks, fd, -1, data_begin(fd), size_of(fd));
    while (places.size() < blocks.size()) {
      places.push_back(total);
      total += blocks[places.size() - 1].size_bytes;
    }
  }
  char* memory = map_huge(total);
  for_each_block(blocks, [&](const Block& block, size_t i) {
    read_all(block.source, memory + places[i], block.size_bytes, block.offset_bytes);
  });
  const double seconds = seconds_since(start);
  std::printf("%.4f s  %lld bytes  %.2f GiB/s\n", seconds, static_cast<long long>(total),
              static_cast<double>(total) / seconds / (1 << 30));
}
