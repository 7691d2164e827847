#include "weightloom/plan/interpret.h"

#include "weightloom/codec/cast_reference.h"
#include "weightloom/plan/node_reference_internal.h"

namespace weightloom {
namespace {

/// Writes the byte, or the element, at `to` of the target from `from` of the source.
void copy_point(const RegionType& type, const Bytes& source, size_t from, Bytes& target,
                size_t to) {
  if (!type.casts()) {
    target.at(to) = source.at(from);
    return;
  }
  uint64_t pattern = 0;
  for (size_t i = static_cast<size_t>(type.source_bytes()); i-- > 0;) {
    pattern = pattern << 8 | std::to_integer<uint64_t>(source.at(from + i));
  }
  pattern = cast_bits(type.from, type.to, pattern);
  for (size_t i = 0; i < static_cast<size_t>(type.target_bytes()); ++i) {
    target.at(to + i) = static_cast<std::byte>(pattern >> (8 * i));
  }
}

/// Visits every (target, source) pair of a region by counting through its axes.
void copy_region(const RegionType& type, const Region& region, const Bytes& source, Bytes& target) {
  std::vector<int64_t> count(region.axes.size(), 0);
  while (true) {
    int64_t to = region.target_offset;
    int64_t from = region.source_offset;
    for (size_t i = 0; i < count.size(); ++i) {
      to += count[i] * region.axes[i].target_stride;
      from += count[i] * region.axes[i].source_stride;
    }
    if (region.is_pad()) {
      target.at(static_cast<size_t>(to)) = std::byte{0};
    } else {
      copy_point(type, source, static_cast<size_t>(from), target, static_cast<size_t>(to));
    }
    size_t axis = count.size();
    while (axis > 0 && ++count[axis - 1] == region.axes[axis - 1].extent) count[--axis] = 0;
    if (axis == 0) return;
  }
}

/// Makes tensors whole, one after another.
class Interpreter {
 public:
  Interpreter(const CopyProgram& program, const SourceBytes& source_bytes)
      : program_(program), source_bytes_(source_bytes) {}

  Bytes make(const ProgramTarget& target) const {
    Bytes bytes(static_cast<size_t>(target.size_bytes));
    for (const Region& region : target.regions) {
      const Bytes source = region.is_pad() ? Bytes{} : bytes_of(program_.source_of(region));
      copy_region(program_.type_of(target, region), region, source, bytes);
    }
    return bytes;
  }

 private:
  Bytes bytes_of(const ProgramSource& source) const {
    if (!source.is_computed()) return source_bytes_(source);
    const ProgramNode& node = program_.nodes()[static_cast<size_t>(source.node)];
    std::vector<Bytes> inputs;
    for (const ProgramTarget& input : node.inputs) inputs.push_back(make(input));
    return compute_reference(node, source.result, inputs);
  }

  const CopyProgram& program_;
  const SourceBytes& source_bytes_;
};

}  // namespace

std::vector<Bytes> interpret(const CopyProgram& program, const SourceBytes& source_bytes) {
  const Interpreter interpreter(program, source_bytes);
  std::vector<Bytes> result;
  for (const ProgramTarget& target : program.targets()) result.push_back(interpreter.make(target));
  return result;
}

}  // namespace weightloom
