#include <algorithm>
#include <span>
#include <utility>

#include "weightloom/base/checked.h"
#include "weightloom/layout/segments.h"
#include "weightloom/plan/node_boxes_internal.h"

namespace weightloom {
namespace {

/// Along one dim: what of an operand belongs to `values`.
Interval beside(const Pace& pace, const Interval& values, int64_t operand_size) {
  if (pace.values == kEntireDim) return {0, operand_size};
  return {values.begin / pace.values * pace.elements,
          std::min(ceil_div(values.end, pace.values) * pace.elements, operand_size)};
}

/// Along one dim: the values that belong to some elements of an operand.
Interval values_beside(const Pace& pace, const Interval& elements, int64_t values_size) {
  if (pace.values == kEntireDim) return {0, values_size};
  return {elements.begin / pace.elements * pace.values,
          std::min(ceil_div(elements.end, pace.elements) * pace.values, values_size)};
}

Interval in_granules(const Interval& values, int64_t granule, int64_t size) {
  if (granule == kEntireDim) return {0, size};
  return {values.begin / granule * granule, std::min(round_up(values.end, granule), size)};
}

/// The paces of the last two dims.
Box along(const CodecOperand& operand, const Box& box, const Shape& sizes,
          Interval (*convert)(const Pace&, const Interval&, int64_t)) {
  Box result = box;
  const size_t rows = box.size() - 2;
  result[rows] = convert(operand.rows, box[rows], sizes[rows]);
  result[rows + 1] = convert(operand.cols, box[rows + 1], sizes[rows + 1]);
  return result;
}

/// How many elements of an operand lie beside all values of a dim.
int64_t size_beside(const Pace& pace, int64_t values) {
  return pace.values == kEntireDim ? pace.elements : ceil_div(values, pace.values) * pace.elements;
}

CodecOperand operand_of(const ProgramNode& node, size_t place) {
  return operands_of(node.codec)[place];
}

/// Finds what regions need of sources in files, through nodes.
template <typename Visit>
class NeedWalk {
 public:
  /// `visit(source, bytes)` is called for each region that reads a file.
  NeedWalk(const CopyProgram& program, Visit visit) : program_(program), visit_(std::move(visit)) {}

  void walk(const ProgramTarget& target, const Region& region) {
    if (region.is_pad()) return;
    const RegionType type = program_.type_of(target, region);
    const ProgramSource& source = program_.source_of(region);
    if (!source.is_computed()) {
      return visit_(region.source, volume(region) * type.source_bytes());
    }
    const ProgramNode& node = program_.nodes()[static_cast<size_t>(source.node)];
    for (const BoxedRegion& part :
         source_boxes(in_elements(region, type, source.dtype), source.shape)) {
      walk(node, values_box(node, source.result, part.box));
    }
  }

 private:
  void walk(const ProgramNode& node, const Box& values) {
    for (size_t i = 0; i < node.inputs.size(); ++i) {
      const ProgramTarget& input = node.inputs[i];
      for (const Region& region : regions_of_box(input, input_box(node, i, values))) {
        walk(input, region);
      }
    }
  }

  const CopyProgram& program_;
  Visit visit_;
};

}  // namespace

Box whole_granules(const ProgramNode& node, const Box& values) {
  const Granule granule = node.encodes ? encode_granule(node.codec) : decode_granule(node.codec);
  Box box = values;
  const size_t rows = box.size() - 2;
  box[rows] = in_granules(box[rows], granule.rows, node.shape[rows]);
  box[rows + 1] = in_granules(box[rows + 1], granule.cols, node.shape[rows + 1]);
  return box;
}

Box values_box(const ProgramNode& node, int32_t result, const Box& of_result) {
  if (!node.encodes) return whole_granules(node, of_result);
  const CodecOperand operand = operand_of(node, static_cast<size_t>(result));
  return whole_granules(node, along(operand, of_result, node.shape, values_beside));
}

Box input_box(const ProgramNode& node, size_t input, const Box& values) {
  if (node.encodes) return values;
  return along(operand_of(node, input), values, node.inputs[input].shape, beside);
}

Shape result_shape(const ProgramNode& node, int32_t result) {
  if (!node.encodes) return node.shape;
  const CodecOperand operand = operand_of(node, static_cast<size_t>(result));
  Shape shape = node.shape;
  const size_t rows = shape.size() - 2;
  shape[rows] = size_beside(operand.rows, shape[rows]);
  shape[rows + 1] = size_beside(operand.cols, shape[rows + 1]);
  return shape;
}

DType result_dtype(const ProgramNode& node, int32_t result) {
  return node.encodes ? operand_of(node, static_cast<size_t>(result)).dtype : DType::F32;
}

int32_t result_count(const ProgramNode& node) {
  return node.encodes ? static_cast<int32_t>(operands_of(node.codec).size()) : 1;
}

Box result_box(const ProgramNode& node, int32_t result, const Box& values) {
  if (!node.encodes) return values;
  return along(operand_of(node, static_cast<size_t>(result)), values, result_shape(node, result),
               beside);
}

std::vector<Region> regions_of_box(const ProgramTarget& input, const Box& box) {
  const int64_t width = bits(input.dtype) / 8;
  Shape bytes = input.shape;
  bytes.back() *= width;
  std::vector<Segments> segments;
  for (const Interval& interval : box) segments.push_back({{interval.begin, interval.size()}});
  segments.back().front().begin *= width;
  segments.back().front().size *= width;
  return select(Layout::unchecked(std::move(bytes), input.regions), segments).regions();
}

int64_t bytes_of_box(const Box& box, DType dtype) { return volume(box) * (bits(dtype) / 8); }

Region in_elements(const Region& region, const RegionType& type, DType dtype) {
  const int64_t width = bits(dtype) / 8;
  Region points = region;
  if (!type.casts() && width > 1) {  // its points are bytes: the last axis has those of elements
    Axis& run = points.axes.back();
    run = {run.extent / width, width, width};
  }
  points.source_offset /= width;
  for (Axis& axis : points.axes) axis.source_stride /= width;
  return normalized(std::move(points));
}

std::vector<NeededBytes> needed_of_sources(const CopyProgram& program,
                                           const ProgramTarget& target) {
  std::vector<NeededBytes> needed;
  NeedWalk walk(program,
                [&](SourceId source, int64_t bytes) { needed.push_back({source, bytes}); });
  for (const Region& region : target.regions) walk.walk(target, region);
  return needed;
}

int64_t needed_bytes(const CopyProgram& program, const ProgramTarget& target) {
  int64_t needed = 0;
  NeedWalk walk(program, [&](SourceId, int64_t bytes) { needed += bytes; });
  for (const Region& region : target.regions) walk.walk(target, region);
  return needed;
}

int64_t rows_of_block(const CopyProgram& program, const Region& region) {
  const ProgramSource& source = program.source_of(region);
  const ProgramNode& node = program.nodes()[static_cast<size_t>(source.node)];
  if (!node.encodes) return 1;
  const CodecOperand operand = operand_of(node, static_cast<size_t>(source.result));
  const int64_t block = encode_granule(node.codec).rows;
  if (operand.rows.values == kEntireDim || block == kEntireDim) return 1;
  return std::max<int64_t>(block * operand.rows.elements / operand.rows.values, 1);
}

}  // namespace weightloom
