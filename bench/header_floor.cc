// The floor of inspecting and planning: a folder's index and the header of each shard it names,
// read and parsed, each with a fresh simdjson DOM parser. Prints the number of tensors and of bytes
// of JSON.
#include <set>

#include <simdjson.h>

#include "bench/parallel_blocks.h"

using namespace weightloom::bench;

namespace {

struct Counts {
  size_t tensors = 0;
  size_t bytes = 0;
};

simdjson::padded_string read_text(int fd, int64_t offset, int64_t size) {
  simdjson::padded_string text(static_cast<size_t>(size));
  read_all(fd, text.data(), size, offset);
  ::close(fd);
  return text;
}

std::set<std::string> shards_of(const std::filesystem::path& index, Counts& counts) {
  const int fd = open_file(index, O_RDONLY);
  const auto text = read_text(fd, 0, size_of(fd));
  counts.bytes += text.size();
  simdjson::dom::parser parser;
  std::set<std::string> shards;
  for (const auto entry : parser.parse(text)["weight_map"].get_object()) {
    shards.emplace(entry.value.get_string().value());
  }
  return shards;
}

void count_header(const std::filesystem::path& path, Counts& counts) {
  uint64_t header_bytes = 0;
  const int fd = open_file(path, O_RDONLY);
  read_all(fd, reinterpret_cast<char*>(&header_bytes), 8, 0);
  const auto text = read_text(fd, 8, static_cast<int64_t>(header_bytes));
  counts.bytes += text.size();
  simdjson::dom::parser parser;
  for (const auto entry : parser.parse(text).get_object()) {
    if (entry.key != "__metadata__") ++counts.tensors;
  }
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) {
    std::fprintf(stderr, "usage: %s FOLDER\n", argv[0]);
    return 2;
  }
  const std::filesystem::path folder = argv[1];
  Counts counts;
  for (const auto& shard : shards_of(folder / "model.safetensors.index.json", counts)) {
    count_header(folder / shard, counts);
  }
  std::printf("%zu tensors  %zu bytes of JSON\n", counts.tensors, counts.bytes);
}
