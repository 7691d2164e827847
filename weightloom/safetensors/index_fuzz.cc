// Any bytes as an index: refused with an Error, or read back the same from what format_index
// writes.
#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "weightloom/safetensors/checkpoint.h"

namespace weightloom {
namespace {

void require(bool condition) {
  if (!condition) std::abort();
}

void check_index(const Index& index) {
  for (const auto& [name, shard] : index.weight_map) {
    require(!shard.empty() && shard.front() != '/');
    require(shard.find('\\') == std::string::npos && shard.find('\0') == std::string::npos);
    require(("/" + shard + "/").find("/../") == std::string::npos);
  }
  Index read = parse_index(format_index(index), "fuzz");
  auto expected = index.weight_map;
  std::sort(expected.begin(), expected.end());
  require(read.weight_map == expected);
  require(read.total_size == index.total_size);
  require(read.total_parameters == index.total_parameters);
}

}  // namespace
}  // namespace weightloom

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string input(reinterpret_cast<const char*>(data), size);
  std::optional<weightloom::Index> index;
  try {
    index = weightloom::parse_index(input, "fuzz");
  } catch (const weightloom::Error&) {
    return 0;
  }
  weightloom::check_index(*index);
  return 0;
}
