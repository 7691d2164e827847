// Any bytes as a header: refused with an Error, or accepted with all that header.h promises.
#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <string>

#include "weightloom/safetensors/header.h"

namespace weightloom {
namespace {

void require(bool condition) {
  if (!condition) std::abort();
}

/// The first two bytes say how many bytes of data follow the rest.
void check_parse(std::string_view input) {
  if (input.size() < 2) return;
  int64_t data_bytes =
      static_cast<unsigned char>(input[0]) * 256 + static_cast<unsigned char>(input[1]);
  std::string json(input.substr(2));
  int64_t file_bytes = 8 + static_cast<int64_t>(json.size()) + data_bytes;
  Header header = Header::parse(json, file_bytes, "fuzz");
  require(header.json() == json && header.file_bytes() == file_bytes);
  int64_t end = 0;
  for (const auto& tensor : header.tensors()) {
    require(tensor.begin_bytes == end);
    require(checked_bytes(tensor.dtype, tensor.shape) == tensor.end_bytes - tensor.begin_bytes);
    end = tensor.end_bytes;
  }
  require(end == data_bytes);
}

/// What parses can be written, unless a name is empty, and is then read as the same tensors.
void check_round_trip(std::string_view json, int64_t file_bytes) {
  Header header = Header::parse(std::string(json), file_bytes, "fuzz");
  std::vector<TensorSpec> specs;
  for (const auto& tensor : header.tensors()) {
    if (tensor.name.empty()) return;
    specs.push_back({tensor.name, tensor.dtype, tensor.shape});
  }
  Header written = Header::lay_out(specs, header.metadata());
  Header read = Header::parse(written.json(), written.file_bytes(), "fuzz");
  require(read.metadata() == header.metadata());
  require(std::equal(read.tensors().begin(), read.tensors().end(), written.tensors().begin(),
                     written.tensors().end()));
}

}  // namespace
}  // namespace weightloom

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  std::string_view input(reinterpret_cast<const char*>(data), size);
  try {
    weightloom::check_parse(input);
  } catch (const weightloom::Error&) {
    return 0;
  }
  if (size < 2) return 0;
  int64_t data_bytes = data[0] * 256 + data[1];
  weightloom::check_round_trip(input.substr(2), 8 + static_cast<int64_t>(size - 2) + data_bytes);
  return 0;
}
