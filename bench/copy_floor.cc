// The floor of converting: a folder's files copied by two threads through small buffers; writeback is
// started behind each block, and every file and the folder are synced. Prints seconds, bytes and GiB/s.
#include <memory>

#include "bench/parallel_blocks.h"

using namespace weightloom::bench;

namespace {

void copy_block(const Block& block) {
  thread_local const auto buffer = std::make_unique<char[]>(static_cast<size_t>(kBlockBytes));
  read_all(block.source, buffer.get(), block.size_bytes, block.offset_bytes);
  write_all(block.target, buffer.get(), block.size_bytes, block.offset_bytes);
  ::sync_file_range(block.target, block.offset_bytes, block.size_bytes, SYNC_FILE_RANGE_WRITE);
}

void sync_folder(const std::filesystem::path& folder) {
  const int fd = open_file(folder, O_RDONLY | O_DIRECTORY);
  require(::fsync(fd) == 0, folder.string());
  ::close(fd);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 3) {
    std::fprintf(stderr, "usage: %s FROM TO   (folders; TO must not exist)\n", argv[0]);
    return 2;
  }
  const std::filesystem::path from = argv[1];
  const std::filesystem::path to = argv[2];
  const auto start = std::chrono::steady_clock::now();
  require(std::filesystem::create_directory(to), to.string());
  std::vector<Block> blocks;
  std::vector<int> targets;
  int64_t total = 0;
  for (const auto& path : files_in(from)) {
    const int source = open_file(path, O_RDONLY);
    targets.push_back(open_file(to / path.filename(), O_WRONLY | O_CREAT | O_EXCL));
    append_blocks(blocks, source, targets.back(), 0, size_of(source));
    total += size_of(source);
  }
  for_each_block(blocks, [](const Block& block, size_t) { copy_block(block); });
  for (const int target : targets) require(::fsync(target) == 0, "fsync");
  sync_folder(to);
  const double seconds = seconds_since(start);
  std::printf("%.4f s  %lld bytes  %.2f GiB/s\n", seconds, static_cast<long long>(total),
              static_cast<double>(total) / seconds / (1 << 30));
}
