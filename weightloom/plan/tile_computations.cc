#include <algorithm>
#include <functional>
#include <numeric>
#include <optional>
#include <tuple>
#include <utility>

#include <fmt/format.h>

#include "weightloom/base/byte_size.h"
#include "weightloom/base/checked.h"
#include "weightloom/base/error.h"
#include "weightloom/plan/node_boxes_internal.h"
#include "weightloom/plan/tile_computations_internal.h"

namespace weightloom {
namespace {

// Buffers in the staging memory begin on cache lines.
constexpr int64_t kLineBytes = 64;
// Boxes are computed together when no more than a fourth of what is computed is for nobody.
constexpr int64_t kSparest = 4;

bool lies_before(const Box& a, const Box& b) {
  return std::ranges::lexicographical_compare(a, b, [](const Interval& x, const Interval& y) {
    return std::tie(x.begin, x.end) < std::tie(y.begin, y.end);
  });
}

Box hull_of(const Box& a, const Box& b) {
  Box hull = a;
  for (size_t d = 0; d < hull.size(); ++d) {
    hull[d] = {std::min(a[d].begin, b[d].begin), std::max(a[d].end, b[d].end)};
  }
  return hull;
}

/// Bytes of all inputs and results of a box, each from a new line on.
int64_t memory_of(const ProgramNode& node, const Box& values, DType dtype) {
  int64_t bytes = 0;
  for (size_t i = 0; i < node.inputs.size(); ++i) {
    const Box box = input_box(node, i, values);
    bytes += round_up(bytes_of_box(box, node.inputs[i].dtype), kLineBytes);
  }
  for (int32_t r = 0; r < result_count(node); ++r) {
    const DType made = node.encodes ? result_dtype(node, r) : dtype;
    bytes += round_up(bytes_of_box(result_box(node, r, values), made), kLineBytes);
  }
  return bytes;
}

bool has_computed_input(const ProgramNode& node) {
  return std::ranges::any_of(node.inputs, &ProgramTarget::is_computed);
}

/// Some steps of one axis of a region.
Region steps_of(Region region, size_t axis, int64_t first, int64_t count) {
  region.target_offset += first * region.axes[axis].target_stride;
  region.source_offset += first * region.axes[axis].source_stride;
  region.axes[axis].extent = count;
  return normalized(std::move(region));
}

/// Elements of `width` bytes, as bytes.
Region as_bytes(Region region, int64_t width) {
  region.source_offset *= width;
  for (Axis& axis : region.axes) axis.source_stride *= width;
  if (width > 1) region.axes.push_back({width, 1, 1});
  return normalized(std::move(region));
}

/// From one row of a box to the next in the tile, where the region goes there row by row and takes
/// the whole box, which is one matrix; else nothing.
std::optional<int64_t> rows_in_place(const Region& region, const Box& box, int64_t width) {
  int64_t lead = 1;
  for (size_t d = 0; d + 2 < box.size(); ++d) lead *= box[d].size();
  if (lead != 1 || volume(region) != volume(box)) return std::nullopt;
  const int64_t cols = box.back().size();
  const int64_t rows = box[box.size() - 2].size();
  if (region.axes.empty()) return width;
  if (region.axes.size() == 1) {
    const Axis& axis = region.axes[0];
    if (axis.target_stride == width && axis.source_stride == 1) return cols * width;
    const bool is_column = cols == 1 && axis.extent == rows;
    return is_column ? std::optional(axis.target_stride) : std::nullopt;
  }
  const bool is_plane = region.axes.size() == 2 && region.axes[0].extent == rows &&
                        region.axes[0].source_stride == cols && region.axes[1].extent == cols &&
                        region.axes[1].source_stride == 1 && region.axes[1].target_stride == width;
  return is_plane ? std::optional(region.axes[0].target_stride) : std::nullopt;
}

}  // namespace

const ProgramNode& Computations::node_of(const Part& part) const {
  return program_.nodes()[static_cast<size_t>(part.node)];
}

/// What makes the inputs needs memory too: little where they are read, much where they are
/// computed.
bool Computations::fits(const Part& part, const Box& values) const {
  const int64_t reserve = staging_bytes_ / (has_computed_input(node_of(part)) ? 2 : 8);
  return memory_of(node_of(part), values, part.dtype) <= staging_bytes_ - reserve;
}

void Computations::add(const Region& region, const RegionType& type, int32_t owner) {
  const ProgramSource& source = program_.source_of(region);
  const ProgramNode& node = program_.nodes()[static_cast<size_t>(source.node)];
  for (BoxedRegion& taken : source_boxes(in_elements(region, type, source.dtype), source.shape)) {
    Box values = values_box(node, source.result, taken.box);
    add({source.node, source.result, type.casts() ? type.to : source.dtype, std::move(values),
         std::move(taken), owner});
  }
}

void Computations::add(Part part) {
  if (fits(part, part.values)) {
    parts_.push_back(std::move(part));
    return;
  }
  for (Part& half : halves(part)) add(std::move(half));
}

/// Both halves of a part along an axis of its region.
std::vector<Computations::Part> Computations::halves_along(const Part& part, size_t axis) const {
  const ProgramNode& node = node_of(part);
  const Shape shape = result_shape(node, part.result);
  const int64_t extent = part.taken.region.axes[axis].extent;
  std::vector<Part> parts;
  for (const auto& [first, count] :
       {std::pair(int64_t{0}, extent / 2), std::pair(extent / 2, extent - extent / 2)}) {
    Region steps = steps_of(part.taken.region, axis, first, count);
    for (BoxedRegion& taken : source_boxes(steps, shape)) {
      Box values = values_box(node, part.result, taken.box);
      parts.push_back(
          {part.node, part.result, part.dtype, std::move(values), std::move(taken), part.owner});
    }
  }
  return parts;
}

/// Divided along the outermost axis of the source, so that what is read stays in long runs; along
/// another one only where that leaves boxes that are smaller by a fourth.
std::vector<Computations::Part> Computations::halves(const Part& part) const {
  const auto& axes = part.taken.region.axes;
  std::vector<size_t> order(axes.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::ranges::sort(order, {},
                    [&](size_t axis) { return std::pair(-axes[axis].source_stride, axis); });
  std::vector<Part> best;
  int64_t most = volume(part.values) - 1;
  for (const size_t axis : order) {
    std::vector<Part> parts = halves_along(part, axis);
    int64_t size = 0;
    for (const Part& half : parts) size = std::max(size, volume(half.values));
    if (size > most) continue;
    best = std::move(parts);
    most = size - size / kSparest - 1;
  }
  if (best.empty()) {
    throw Error(ErrorCode::plan,
                fmt::format("'{}': one block of it takes {} to compute, and the memory budget "
                            "leaves {} for it",
                            program_.targets()[static_cast<size_t>(part.owner)].name,
                            format_byte_size(memory_of(node_of(part), part.values, part.dtype)),
                            format_byte_size(staging_bytes_)),
                "raise --memory-budget or lower --threads");
  }
  return best;
}

bool Computations::joins(const Cluster& cluster, const Part& part) const {
  const Part& first = cluster.parts.front();
  if (part.node != first.node) return false;
  if (part.dtype != first.dtype && !node_of(part).encodes) return false;
  const Box hull = hull_of(cluster.values, part.values);
  const int64_t size = volume(hull);
  int64_t used = volume(part.values);
  if (hull != cluster.values) used += volume(cluster.values);
  return (hull == cluster.values || size - size / kSparest <= used) && fits(part, hull);
}

std::vector<Computations::Cluster> Computations::clusters() const {
  std::vector<Cluster> clusters;
  for (const Part& part : parts_) {
    if (clusters.empty() || !joins(clusters.back(), part)) clusters.push_back({part.values, {}});
    Cluster& cluster = clusters.back();
    cluster.values = hull_of(cluster.values, part.values);
    cluster.parts.push_back(part);
  }
  return clusters;
}

std::vector<Computation> Computations::take() && {
  // Of decoders, what is made in one dtype together; encoders make all their results at once.
  const auto dtype_of = [this](const Part& part) {
    return node_of(part).encodes ? DType::F32 : part.dtype;
  };
  std::ranges::sort(parts_, [&](const Part& a, const Part& b) {
    const auto first = std::tuple(a.node, dtype_of(a));
    const auto second = std::tuple(b.node, dtype_of(b));
    if (first != second) return first < second;
    if (lies_before(a.values, b.values)) return true;
    if (lies_before(b.values, a.values)) return false;
    return std::tuple(a.result, a.taken.region.target_offset) <
           std::tuple(b.result, b.taken.region.target_offset);
  });
  std::vector<Computation> result;
  for (const Cluster& cluster : clusters()) result.push_back(computation_of(cluster));
  return result;
}

Computation Computations::computation_of(const Cluster& cluster) const {
  Computation computation;
  computation.node = cluster.parts.front().node;
  computation.box = cluster.values;
  computation.target = cluster.parts.front().owner;
  place_results(cluster, computation);
  place_inputs(computation);
  return computation;
}

/// One result of a box: where it goes when all of it goes to one place row by row, else how it is
/// copied out of the staging buffer.
ComputedResult Computations::result_of(const Cluster& cluster, int32_t r) const {
  const ProgramNode& node = node_of(cluster.parts.front());
  const Shape shape = result_shape(node, r);
  ComputedResult result;
  result.box = result_box(node, r, cluster.values);
  result.dtype = node.encodes ? result_dtype(node, r) : cluster.parts.front().dtype;
  const int64_t width = bits(result.dtype) / 8;
  result.row_bytes = result.box.back().size() * width;
  std::vector<Region> regions;
  for (const Part& part : cluster.parts) {
    if (part.result != r) continue;
    regions.push_back(within_box(part.taken.region, shape, result.box));
    result.copies.push_back({as_bytes(regions.back(), width), {}, part.owner});
  }
  if (regions.size() != 1) return result;
  if (const auto row_bytes = rows_in_place(regions.front(), result.box, width)) {
    result.in_place = true;
    result.at_bytes = regions.front().target_offset;
    result.row_bytes = *row_bytes;
    result.copies.clear();
  }
  return result;
}

void Computations::place_results(const Cluster& cluster, Computation& computation) const {
  for (int32_t r = 0; r < result_count(node_of(cluster.parts.front())); ++r) {
    ComputedResult result = result_of(cluster, r);
    if (!result.in_place) {
      result.at_bytes = computation.staging_bytes;
      computation.staging_bytes += round_up(bytes_of_box(result.box, result.dtype), kLineBytes);
    }
    computation.results.push_back(std::move(result));
  }
}

void Computations::place_inputs(Computation& computation) const {
  const ProgramNode& node = program_.nodes()[static_cast<size_t>(computation.node)];
  for (size_t i = 0; i < node.inputs.size(); ++i) {
    OperandReads input;
    input.box = input_box(node, i, computation.box);
    input.size_bytes = bytes_of_box(input.box, node.inputs[i].dtype);
    input.at_bytes = computation.staging_bytes;
    computation.staging_bytes += round_up(input.size_bytes, kLineBytes);
    computation.inputs.push_back(std::move(input));
  }
  const int64_t beside = computation.staging_bytes;
  for (size_t i = 0; i < node.inputs.size(); ++i) {
    OperandReads& input = computation.inputs[i];
    input.staging_at_bytes = beside;
    input.reads = read_regions(program_, node.inputs[i], regions_of_box(node.inputs[i], input.box),
                               computation.target, {staging_bytes_ - beside, true});
    computation.staging_bytes =
        std::max(computation.staging_bytes, beside + input.reads.staging_bytes);
  }
}

}  // namespace weightloom
