#include "weightloom/safetensors/memory_checkpoint.h"

#include <map>
#include <string_view>

#include <fmt/format.h>

#include "weightloom/base/error.h"
#include "weightloom/base/quote.h"
#include "weightloom/base/shape.h"

namespace weightloom {
namespace {

using PartsByName = std::map<std::string_view, std::span<const std::byte>>;

void refuse_other_size(const MemoryTensor& tensor) {
  const auto& [name, dtype, shape] = tensor.spec;
  const auto needed = checked_bytes(dtype, shape);
  if (needed && *needed == static_cast<int64_t>(tensor.bytes.size())) return;
  throw Error(ErrorCode::usage,
              fmt::format("tensor {}: {} bytes of memory, but {} {} needs {}", quote(name),
                          tensor.bytes.size(), to_string(dtype), to_string(shape),
                          needed ? fmt::to_string(*needed) : "more than there is"));
}

PartsByName parts_of(const std::vector<MemoryTensor>& tensors) {
  PartsByName parts;
  for (const MemoryTensor& tensor : tensors) {
    refuse_other_size(tensor);
    parts.emplace(tensor.spec.name, tensor.bytes);
  }
  return parts;
}

Header header_of(const std::vector<MemoryTensor>& tensors, Metadata metadata) {
  std::vector<TensorSpec> specs;
  specs.reserve(tensors.size());
  for (const MemoryTensor& tensor : tensors) specs.push_back(tensor.spec);
  return Header::lay_out(std::move(specs), std::move(metadata));
}

}  // namespace

MemoryCheckpoint::MemoryCheckpoint(std::unique_ptr<MemoryFiles> files, Checkpoint checkpoint)
    : files_(std::move(files)), checkpoint_(std::move(checkpoint)) {}

MemoryCheckpoint MemoryCheckpoint::make(const std::vector<MemoryTensor>& tensors, Metadata metadata,
                                        std::vector<SideText> texts, const Syscalls& others) {
  const PartsByName by_name = parts_of(tensors);
  const Header header = header_of(tensors, std::move(metadata));
  auto files = std::make_unique<MemoryFiles>(others);
  const std::string folder(kMemoryFolder);
  std::vector<std::span<const std::byte>> parts{files->keep(header.bytes())};
  for (const HeaderTensor& tensor : header.tensors()) parts.push_back(by_name.at(tensor.name));
  files->add(join_path(folder, "model.safetensors"), parts);
  for (auto& [name, text] : texts) files->add_text(join_path(folder, name), std::move(text));
  Checkpoint checkpoint = Checkpoint::open(files->calls(), folder);
  return {std::move(files), std::move(checkpoint)};
}

}  // namespace weightloom
