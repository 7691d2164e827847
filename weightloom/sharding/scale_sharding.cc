#include "weightloom/sharding/scale_sharding.h"

#include <algorithm>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "weightloom/base/checked.h"

namespace weightloom {
namespace {

/// Goes through the steps and says of each what it is for the scales.
class ScaleSteps {
 public:
  ScaleSteps(const Mesh& mesh, const Shape& shape, std::span<const int64_t> block)
      : mesh_(mesh), sizes_(shape), block_(block) {}

  /// A step that is for scales what it is for values.
  void keep(const ShardingStep& step) { made_.push_back(step); }
  void add(const StageStep& step) { keep(step); }

  void add(const PadStep& step) {
    const auto dim = static_cast<size_t>(step.dim);
    const int64_t block = block_[dim];
    if (block == 0) return;
    if (step.multiple % block != 0 || sizes_[dim] % step.groups != 0 ||
        (step.groups > 1 && sizes_[dim] / step.groups % block != 0)) {
      return refuse(step.dim, fmt::format("is padded to a multiple of {}", step.multiple));
    }
    // As padding is done; whoever finds what ranks hold refuses what 64 bits do not count.
    const auto group = checked_mul(
        ceil_div(std::max(sizes_[dim] / step.groups, step.least), step.multiple), step.multiple);
    sizes_[dim] = group ? checked_mul(*group, step.groups).value_or(-1) : -1;
    made_.push_back(
        PadStep{step.dim, step.multiple / block, step.groups, ceil_div(step.least, block)});
  }

  void add(const CutStep& step) {
    const auto dim = static_cast<size_t>(step.dim);
    const int64_t block = block_[dim];
    if (block == 0) return;  // one scale for all of it: every rank has it
    const int64_t parts = size_of(step.axis) / step.copies;
    CutStep scales{step.axis, step.dim, step.cut, step.copies};
    std::vector<std::vector<Interval>> table;
    int64_t left = -1;  // of each part, if they are all alike
    for (int64_t p = 0; p < parts; ++p) {
      const auto stretches = part_of(step.cut, sizes_[dim], parts, p);
      table.push_back(blocks_of(step.dim, stretches));
      if (!refusal_.empty()) return;
      int64_t size = 0;
      for (const Interval& stretch : stretches) size += stretch.size();
      left = p == 0 || left == size ? size : -1;
    }
    if (!is_said_by(scales.cut, table, ceil_div(sizes_[dim], block))) {
      scales.cut = Cut{CutRule::table};
      scales.cut.table = std::move(table);
    }
    made_.push_back(std::move(scales));
    sizes_[dim] = left;
  }

  /// A cut of what another step left in parts of several sizes.
  bool is_open(int dim) const { return sizes_[static_cast<size_t>(dim)] < 0; }
  void refuse(int dim, const std::string& what) {
    refusal_ = fmt::format("dim {} {}, but values share scales in blocks of {} there", dim, what,
                           block_[static_cast<size_t>(dim)]);
  }

  bool is_refused() const { return !refusal_.empty(); }
  ScaleSharding result(std::string mesh) && {
    if (is_refused()) return {{}, std::move(refusal_)};
    return {{std::move(mesh), std::move(made_)}, ""};
  }

 private:
  /// Of an axis; whoever finds what ranks hold refuses one that is not there.
  int64_t size_of(const std::string& axis) const {
    const auto place = mesh_.find(axis);
    return place ? mesh_.axes()[*place].size : 1;
  }

  /// The blocks of the stretches of a part, in order.
  std::vector<Interval> blocks_of(int dim, std::span<const Interval> stretches) {
    const int64_t block = block_[static_cast<size_t>(dim)];
    const int64_t size = sizes_[static_cast<size_t>(dim)];
    std::vector<Interval> blocks;
    for (const Interval& stretch : stretches) {
      const bool begins = stretch.begin % block == 0;
      const bool ends = stretch.end % block == 0;
      const bool is_only = stretches.size() == 1;
      const bool is_inside = stretch.begin % block + stretch.size() <= block;
      const bool is_last = &stretch == &stretches.back();
      if (!(is_only && (begins || is_inside)) && !(begins && (ends || is_last))) {
        refuse(dim, fmt::format("is cut into [{}, {}) of {}", stretch.begin, stretch.end, size));
        return {};
      }
      blocks.push_back({stretch.begin / block, ceil_div(stretch.end, block)});
    }
    return blocks;
  }

  /// True if the rule itself gives the same parts of the grid.
  static bool is_said_by(const Cut& cut, const std::vector<std::vector<Interval>>& table,
                         int64_t size) {
    if (cut.rule == CutRule::table || !cut.groups.empty() || cut.rule == CutRule::ragged) {
      return false;
    }
    const auto parts = static_cast<int64_t>(table.size());
    if (cut.rule == CutRule::even && size % parts != 0) return false;
    for (int64_t p = 0; p < parts; ++p) {
      if (part_of(cut, size, parts, p) != table[static_cast<size_t>(p)]) return false;
    }
    return true;
  }

  const Mesh& mesh_;
  Shape sizes_;  // of what the steps so far left; -1: parts differ
  std::span<const int64_t> block_;
  std::vector<ShardingStep> made_;
  std::string refusal_;
};

int dim_of(const ShardingStep& step) {
  if (const auto* cut = std::get_if<CutStep>(&step)) return cut->dim;
  if (const auto* pad = std::get_if<PadStep>(&step)) return pad->dim;
  return -1;
}

}  // namespace

ScaleSharding sharding_of_scales(const Sharding& sharding, const MeshSet& meshes,
                                 const Shape& shape, std::span<const int64_t> block) {
  const Mesh* mesh = sharding.mesh.empty() ? &meshes.first() : meshes.find(sharding.mesh);
  if (mesh == nullptr) return {sharding, ""};  // whoever finds what ranks hold refuses it
  ScaleSteps steps(*mesh, shape, block);
  for (const ShardingStep& step : sharding.steps) {
    const int dim = dim_of(step);
    if (dim >= std::ssize(shape)) return {sharding, ""};
    if (dim >= 0 && steps.is_open(dim) && block[static_cast<size_t>(dim)] != 1) {
      steps.refuse(dim, "is cut again after a cut into parts of several sizes");
    } else if (dim >= 0 && block[static_cast<size_t>(dim)] == 1) {
      std::visit([&](const auto& plain) { steps.keep(plain); }, step);
    } else {
      std::visit([&](const auto& other) { steps.add(other); }, step);
    }
    if (steps.is_refused()) break;
  }
  return std::move(steps).result(sharding.mesh);
}

}  // namespace weightloom
