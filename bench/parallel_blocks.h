// What the floors share: folders of files cut into blocks that two threads work off in order.
#pragma once

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <thread>
#include <vector>

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

namespace weightloom::bench {

inline constexpr int64_t kBlockBytes = int64_t{8} << 20;

/// Ends the program with errno's text unless `good`.
inline void require(bool good, const std::string& what) {
  if (good) return;
  std::perror(what.c_str());
  std::exit(1);
}

/// Regular files of a folder that end in `suffix`, sorted.
inline std::vector<std::filesystem::path> files_in(const std::filesystem::path& folder,
                                                   const std::string& suffix = "") {
  std::vector<std::filesystem::path> files;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    if (entry.is_regular_file() && entry.path().string().ends_with(suffix)) {
      files.push_back(entry.path());
    }
  }
  std::sort(files.begin(), files.end());
  return files;
}

inline int open_file(const std::filesystem::path& path, int flags) {
  const int fd = ::open(path.c_str(), flags | O_CLOEXEC, 0666);
  require(fd >= 0, path.string());
  return fd;
}

inline int64_t size_of(int fd) {
  struct stat status{};
  require(::fstat(fd, &status) == 0, "fstat");
  return status.st_size;
}

/// New memory on huge pages.
inline char* map_huge(int64_t size) {
  constexpr int64_t kHugePage = int64_t{2} << 20;
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

struct Block {
  int source = -1;  // descriptors
  int target = -1;
  int64_t offset_bytes = 0;
  int64_t size_bytes = 0;
};

inline void append_blocks(std::vector<Block>& blocks, int source, int target, int64_t begin,
                          int64_t end) {
  for (int64_t at = begin; at < end; at += kBlockBytes) {
    blocks.push_back({source, target, at, std::min(kBlockBytes, end - at)});
  }
}

/// Calls work(block, index) for every block, from two threads.
template <typename Work>
void for_each_block(const std::vector<Block>& blocks, const Work& work) {
  std::atomic<size_t> next{0};
  const auto run = [&] {
    for (size_t i = next++; i < blocks.size(); i = next++) work(blocks[i], i);
  };
  std::thread other(run);
  run();
  other.join();
}

inline double seconds_since(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

inline void read_all(int fd, char* to, int64_t size, int64_t offset) {
  while (size > 0) {
    const int64_t got = ::pread(fd, to, static_cast<size_t>(size), offset);
    require(got > 0, "pread");
    to += got;
    size -= got;
    offset += got;
  }
}

inline void write_all(int fd, const char* from, int64_t size, int64_t offset) {
  while (size > 0) {
    const int64_t put = ::pwrite(fd, from, static_cast<size_t>(size), offset);
    require(put > 0, "pwrite");
    from += put;
    size -= put;
    offset += put;
  }
}

}  // namespace weightloom::bench
