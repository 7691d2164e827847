// The floor of converting: a folder's files copied by two threads, a file each at a time, through
// small buffers; space is allocated first, writeback is started behind each step, and every file
// and the folder are synced. Prints seconds, bytes and GiB/s.
#include <memory>
#include <tuple>

#include "bench/parallel_blocks.h"

using namespace weightloom::bench;

namespace {

constexpr int64_t kStepBytes = int64_t{1} << 20;

void copy_file(const Block& file) {
  const auto buffer = std::make_unique<char[]>(static_cast<size_t>(kStepBytes));
  // A filesystem without fallocate copies all the same.
  if (file.size_bytes > 0) std::ignore = ::fallocate(file.target, 0, 0, file.size_bytes);
  for (int64_t at = 0; at < file.size_bytes; at += kStepBytes) {
    const int64_t step = std::min(kStepBytes, file.size_bytes - at);
    read_all(file.source, buffer.get(), step, at);
    write_all(file.target, buffer.get(), step, at);
    ::sync_file_range(file.target, at, step, SYNC_FILE_RANGE_WRITE);
  }
  require(::fsync(file.target) == 0, "fsync");
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
  std::vector<Block> files;
  int64_t total = 0;
  for (const auto& path : files_in(from)) {
    const int source = open_file(path, O_RDONLY);
    const int target = open_file(to / path.filename(), O_WRONLY | O_CREAT | O_EXCL);
    files.push_back({source, target, 0, size_of(source)});
    total += files.back().size_bytes;
  }
  for_each_block(files, [](const Block& file, size_t) { copy_file(file); });
  sync_folder(to);
  const double seconds = seconds_since(start);
  std::printf("%.4f s  %lld bytes  %.2f GiB/s\n", seconds, static_cast<long long>(total),
              static_cast<double>(total) / seconds / (1 << 30));
}
