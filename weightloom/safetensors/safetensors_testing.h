// Safetensors files written by hand, without the library's own writer, for tests of all rooms.
#pragma once

#include <array>
#include <bit>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "weightloom/base/file.h"
#include "weightloom/base/shape.h"

namespace weightloom {

struct TestTensor {
  std::string name;  // without characters that JSON escapes
  DType dtype;
  Shape shape;
  std::string bytes;
};

/// The length prefix, `json` as it is, and `data`.
inline std::string file_text(std::string_view json, std::string_view data = "") {
  auto length = std::bit_cast<std::array<char, 8>>(uint64_t{json.size()});
  return fmt::format("{}{}{}", std::string_view(length.data(), length.size()), json, data);
}

inline void write_file(const std::string& path, std::string_view text) {
  write_whole_file(system_calls(), path, text);
}

/// Writes the tensors in the order given, without padding.
inline void write_safetensors(const std::string& path, const std::vector<TestTensor>& tensors) {
  std::vector<std::string> entries;
  std::string data;
  for (const auto& tensor : tensors) {
    entries.push_back(fmt::format(R"("{}":{{"dtype":"{}","shape":[{}],"data_offsets":[{},{}]}})",
                                  tensor.name, to_string(tensor.dtype),
                                  fmt::join(tensor.shape, ","), data.size(),
                                  data.size() + tensor.bytes.size()));
    data += tensor.bytes;
  }
  write_file(path, file_text(fmt::format("{{{}}}", fmt::join(entries, ",")), data));
}

}  // namespace weightloom
