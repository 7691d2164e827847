#include "weightloom/plan/interpret.h"

namespace weightloom {
namespace {

/// Visits every (target, source) pair of a region by counting through its axes.
void copy_region(const Region& region, const Bytes& source, Bytes& target) {
  std::vector<int64_t> count(region.axes.size(), 0);
  while (true) {
    int64_t to = region.target_offset;
    int64_t from = region.source_offset;
    for (size_t i = 0; i < count.size(); ++i) {
      to += count[i] * region.axes[i].target_stride;
      from += count[i] * region.axes[i].source_stride;
    }
    target.at(static_cast<size_t>(to)) =
        region.is_pad() ? std::byte{0} : source.at(static_cast<size_t>(from));
    size_t axis = count.size();
    while (axis > 0 && ++count[axis - 1] == region.axes[axis - 1].extent) count[--axis] = 0;
    if (axis == 0) return;
  }
}

}  // namespace

std::vector<Bytes> interpret(const CopyProgram& program, const SourceBytes& source_bytes) {
  std::vector<Bytes> result;
  for (const ProgramTarget& target : program.targets()) {
    Bytes bytes(static_cast<size_t>(target.size_bytes));
    for (const Region& region : target.regions) {
      const Bytes source =
          region.is_pad() ? Bytes{}
                          : source_bytes(program.sources()[static_cast<size_t>(region.source)]);
      copy_region(region, source, bytes);
    }
    result.push_back(std::move(bytes));
  }
  return result;
}

}  // namespace weightloom
