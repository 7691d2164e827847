#include "weightloom/sharding/sharding.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "weightloom/base/checked.h"
#include "weightloom/base/error.h"
#include "weightloom/layout/coverage.h"
#include "weightloom/layout/operations.h"
#include "weightloom/layout/relation.h"

namespace weightloom {
namespace {

template <typename... Args>
[[noreturn]] void misuse(fmt::format_string<Args...> text, Args&&... args) {
  throw Error(ErrorCode::usage, fmt::format(text, std::forward<Args>(args)...));
}

const Mesh& mesh_of(const Sharding& sharding, const MeshSet& meshes) {
  const Mesh* mesh = meshes.find(sharding.mesh);
  if (mesh == nullptr) {
    misuse("there is no mesh called '{}' in '{}'", sharding.mesh, to_string(meshes));
  }
  return *mesh;
}

size_t axis_of(const std::string& name, const Mesh& mesh) {
  const auto place = mesh.find(name);
  if (!place) misuse("there is no axis '{}' in the mesh '{}'", name, to_string(mesh));
  return *place;
}

/// What the part at `coordinate` of an axis is one of.
struct PartNumber {
  int64_t part = 0;
  int64_t parts = 1;
};

PartNumber number_of(const CutStep& step, const Mesh& mesh, int64_t rank) {
  const size_t place = axis_of(step.axis, mesh);
  const int64_t size = mesh.axes()[place].size;
  if (step.copies < 1 || size % step.copies != 0) {
    misuse("axis '{}' of size {} does not divide into groups of {} copies", step.axis, size,
           step.copies);
  }
  return {mesh.coordinate(rank, place) / step.copies, size / step.copies};
}

/// A stretch of rows, and whether an earlier part of the axis holds it too.
struct Claim {
  Interval rows;
  bool is_repeated = false;
};

/// Cuts the claims at the ends of `earlier`, and marks what lies inside it.
std::vector<Claim> marked(const std::vector<Claim>& claims, const Interval& earlier) {
  std::vector<Claim> result;
  for (const Claim& claim : claims) {
    const int64_t begin = std::clamp(earlier.begin, claim.rows.begin, claim.rows.end);
    const int64_t end = std::clamp(earlier.end, begin, claim.rows.end);
    for (const Claim& piece :
         {Claim{{claim.rows.begin, begin}, claim.is_repeated}, Claim{{begin, end}, true},
          Claim{{end, claim.rows.end}, claim.is_repeated}}) {
      if (piece.rows.size() > 0) result.push_back(piece);
    }
  }
  return result;
}

/// The rows of a part, with those marked that an earlier part or an earlier row of it holds. Only a
/// table can repeat rows.
std::vector<Claim> claims_of(const CutStep& step, int64_t rows, const PartNumber& number) {
  std::vector<Claim> claims;
  if (step.cut.rule != CutRule::table) {
    for (const Interval& mine : part_of(step.cut, rows, number.parts, number.part)) {
      claims.push_back({mine, false});
    }
    return claims;
  }
  for (const Interval& mine : part_of(step.cut, rows, number.parts, number.part)) {
    std::vector<Claim> more = {{mine, false}};
    for (int64_t part = 0; part < number.part; ++part) {
      for (const Interval& earlier : part_of(step.cut, rows, number.parts, part)) {
        more = marked(more, earlier);
      }
    }
    for (const Claim& earlier : std::vector<Claim>(claims)) more = marked(more, earlier.rows);
    claims.insert(claims.end(), more.begin(), more.end());
  }
  return claims;
}

/// What a rank holds of a tensor, as the steps are taken.
class Carving {
 public:
  /// `owned_only`: rows that an earlier part holds too count as pads.
  Carving(const Mesh& mesh, const Shape& shape, int64_t rank, bool owned_only)
      : mesh_(mesh), rank_(rank), owned_only_(owned_only) {
    for (const int64_t size : shape) part_.push_back(whole_dim(size));
  }

  /// False if the rank has no part of the tensor.
  bool take_step(const ShardingStep& step) {
    return std::visit([this](const auto& one) { return act(one); }, step);
  }
  LocalPart part() && { return std::move(part_); }

 private:
  Segments& dim(int number) {
    if (number < 0 || number >= std::ssize(part_)) {
      misuse("dim {} of a tensor of {} dims", number, part_.size());
    }
    return part_[static_cast<size_t>(number)];
  }

  bool act(const CutStep& step) {
    Segments& held = dim(step.dim);
    const PartNumber number = number_of(step, mesh_, rank_);
    Segments taken;
    for (const Claim& claim : claims_of(step, length(held), number)) {
      if (claim.is_repeated && owned_only_) {
        append_segment(taken, {0, claim.rows.size(), true});
        continue;
      }
      for (const Segment& segment : take(held, std::span(&claim.rows, 1))) {
        append_segment(taken, segment);
      }
    }
    held = std::move(taken);
    return true;
  }

  bool act(const PadStep& step) {
    Segments& held = dim(step.dim);
    const int64_t rows = length(held);
    if (step.groups < 1 || step.multiple < 1 || rows % step.groups != 0) {
      misuse("padding: {} rows of dim {} in {} groups, to a multiple of {}", rows, step.dim,
             step.groups, step.multiple);
    }
    const int64_t group = rows / step.groups;
    const auto wanted =
        checked_mul(ceil_div(std::max(group, step.least), step.multiple), step.multiple);
    if (!wanted || !checked_mul(*wanted, step.groups)) {
      misuse("padding: {} rows of dim {} become more than 64 bits count", rows, step.dim);
    }
    Segments padded;
    for (int64_t i = 0; i < step.groups; ++i) {
      const Interval mine{i * group, (i + 1) * group};
      for (const Segment& segment : take(held, std::span(&mine, 1))) {
        append_segment(padded, segment);
      }
      append_segment(padded, {0, *wanted - group, true});
    }
    held = std::move(padded);
    return true;
  }

  bool act(const StageStep& step) {
    const size_t place = axis_of(step.axis, mesh_);
    for (const int64_t coordinate : step.coordinates) {
      if (coordinate < 0 || coordinate >= mesh_.axes()[place].size) {
        misuse("axis '{}' has no coordinate {}: its size is {}", step.axis, coordinate,
               mesh_.axes()[place].size);
      }
    }
    return std::ranges::find(step.coordinates, mesh_.coordinate(rank_, place)) !=
           step.coordinates.end();
  }

  const Mesh& mesh_;
  const int64_t rank_;
  const bool owned_only_;
  LocalPart part_;
};

std::optional<LocalPart> carve(const Sharding& sharding, const MeshSet& meshes, const Shape& shape,
                               int64_t rank, bool owned_only) {
  if (rank < 0 || rank >= meshes.size()) {
    misuse("rank {} of a mesh of {} ranks ({})", rank, meshes.size(), to_string(meshes));
  }
  Carving carving(mesh_of(sharding, meshes), shape, rank, owned_only);
  for (const ShardingStep& step : sharding.steps) {
    if (!carving.take_step(step)) return std::nullopt;
  }
  return std::move(carving).part();
}

/// The first coordinate along an axis that holds what `coordinate` holds.
struct FirstHolder {
  std::vector<int64_t>& at;
  std::vector<bool>& named;
  const Mesh& mesh;

  void operator()(const CutStep& step) {
    const size_t place = axis_of(step.axis, mesh);
    at[place] -= at[place] % std::max<int64_t>(step.copies, 1);
    named[place] = true;
  }
  void operator()(const PadStep&) {}
  void operator()(const StageStep& step) {
    const size_t place = axis_of(step.axis, mesh);
    if (named[place] || step.coordinates.empty()) return;
    named[place] = true;
    if (std::ranges::find(step.coordinates, at[place]) == step.coordinates.end()) return;
    at[place] = *std::ranges::min_element(step.coordinates);
  }
};

std::string element_text(int64_t offset, const Shape& shape) {
  const auto strides = row_major_strides(shape);
  Shape at;
  for (size_t i = 0; i < shape.size(); ++i) at.push_back(offset / strides[i] % shape[i]);
  return to_string(at);
}

void refuse_faulty(const Layout& whole) {
  const auto fault = coverage_fault(whole);
  if (!fault) return;
  throw Error(ErrorCode::checkpoint,
              fmt::format("the parts do not make up a tensor {}: element {} is held {} times, "
                          "needed once",
                          to_string(whole.shape()), element_text(fault->offset, whole.shape()),
                          fault->times),
              "correct the sharding: every element must lie in the part of one owner");
}

}  // namespace

Shape local_shape(const LocalPart& part) {
  Shape shape;
  for (const Segments& segments : part) shape.push_back(length(segments));
  return shape;
}

std::optional<LocalPart> local_part(const Sharding& sharding, const MeshSet& meshes,
                                    const Shape& shape, int64_t rank) {
  return carve(sharding, meshes, shape, rank, false);
}

int64_t owner_of(const Sharding& sharding, const MeshSet& meshes, int64_t rank) {
  const Mesh& mesh = mesh_of(sharding, meshes);
  std::vector<int64_t> at = mesh.coordinate(rank);
  std::vector<bool> named(at.size(), false);
  for (const ShardingStep& step : sharding.steps) {
    std::visit(FirstHolder{at, named, mesh}, step);
  }
  for (size_t i = 0; i < at.size(); ++i) {
    if (!named[i]) at[i] = 0;
  }
  return mesh.rank_at(at);
}

std::vector<int64_t> owners(const Sharding& sharding, const MeshSet& meshes) {
  std::vector<int64_t> result;
  for (int64_t rank = 0; rank < meshes.size(); ++rank) {
    if (owner_of(sharding, meshes, rank) == rank) result.push_back(rank);
  }
  return result;
}

Layout merged(const Sharding& sharding, const MeshSet& meshes, const Shape& shape,
              std::span<const SourceId> sources) {
  Relation cutting{{shape}, {}, {{}}};
  std::vector<SourceId> holders;
  const Layout whole = identity(0, shape);
  for (const int64_t rank : owners(sharding, meshes)) {
    const auto part = carve(sharding, meshes, shape, rank, true);
    if (!part) continue;
    cutting.targets.push_back(select(whole, *part));
    holders.push_back(sources[static_cast<size_t>(rank)]);
  }
  std::vector<Region> regions = std::move(invert(cutting).targets.front()).regions();
  for (Region& region : regions) {
    if (!region.is_pad()) region.source = holders[static_cast<size_t>(region.source)];
  }
  Layout result = Layout::unchecked(shape, std::move(regions));
  refuse_faulty(result);
  return result;
}

}  // namespace weightloom
