#include "weightloom/comm/gather_state.h"

#include <string>
#include <utility>

#include "weightloom/comm/wire_internal.h"

namespace weightloom {
namespace {

void put(WireWriter& writer, const std::vector<int64_t>& numbers) {
  writer.put(std::ssize(numbers));
  for (const int64_t number : numbers) writer.put(number);
}

std::vector<int64_t> take_numbers(WireReader& reader) {
  std::vector<int64_t> numbers(static_cast<size_t>(reader.number()));
  for (int64_t& number : numbers) number = reader.number();
  return numbers;
}

void put(WireWriter& writer, const RankTensor& tensor) {
  writer.put(std::string_view(tensor.name));
  writer.put(static_cast<int64_t>(tensor.dtype));
  put(writer, tensor.shape);
  put(writer, tensor.local_shape);
  writer.put(std::ssize(tensor.axes));
  for (const MeshAxis& axis : tensor.axes) {
    writer.put(std::string_view(axis.name));
    writer.put(axis.size);
  }
  put(writer, tensor.mesh_ranks);
  writer.put(std::ssize(tensor.placements));
  for (const DTensorPlacement& placement : tensor.placements) {
    writer.put(static_cast<int64_t>(placement.kind));
    writer.put(int64_t{placement.dim});
    writer.put(placement.split_factor);
  }
  writer.put(std::string_view(tensor.tied_to));
}

/// The inverse of put().
RankTensor take_tensor(WireReader& reader) {
  RankTensor tensor;
  tensor.name = reader.text();
  tensor.dtype = static_cast<DType>(reader.number());
  tensor.shape = take_numbers(reader);
  tensor.local_shape = take_numbers(reader);
  tensor.axes.resize(static_cast<size_t>(reader.number()));
  for (MeshAxis& axis : tensor.axes) {
    axis.name = reader.text();
    axis.size = reader.number();
  }
  tensor.mesh_ranks = take_numbers(reader);
  tensor.placements.resize(static_cast<size_t>(reader.number()));
  for (DTensorPlacement& placement : tensor.placements) {
    placement.kind = static_cast<DTensorPlacement::Kind>(reader.number());
    placement.dim = static_cast<int>(reader.number());
    placement.split_factor = reader.number();
  }
  tensor.tied_to = reader.text();
  return tensor;
}

}  // namespace

JointState gather_state(ProcessGroup& group, const std::vector<RankTensor>& mine) {
  WireWriter writer;
  writer.put(std::ssize(mine));
  for (const RankTensor& tensor : mine) put(writer, tensor);
  std::vector<std::vector<RankTensor>> all;
  for (const auto& bytes : group.all_gather_v(std::move(writer).bytes())) {
    WireReader reader(bytes);
    all.emplace_back();
    for (int64_t left = reader.number(); left > 0; --left) {
      all.back().push_back(take_tensor(reader));
    }
  }
  return state_of(all);
}

}  // namespace weightloom
