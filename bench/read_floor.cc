// The floor of loading: every tensor byte of a folder's safetensors files, read by two threads with
// plain pread into one mapping on huge pages. Prints seconds, bytes and GiB/s.
#include <sys/mman.h>

#include "bench/parallel_blocks.h"

using namespace weightloom::bench;

namespace {

constexpr int64_t kHugePage = int64_t{2} << 20;

char* map_huge(int64_t size) {
  const auto length = static_cast<size_t>(size + kHugePage);
  void* memory = ::mmap(nullptr, length, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  require(memory != MAP_FAILED, "mmap");
  const auto address =
      (reinterpret_cast<uintptr_t>(memory) + kHugePage - 1) / kHugePage * kHugePage;
  auto* aligned = reinterpret_cast<char*>(address);
  ::madvise(aligned, static_cast<size_t>(size), MADV_HUGEPAGE);
  return aligned;
}

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
