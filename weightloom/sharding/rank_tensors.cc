#include "weightloom/sharding/rank_tensors.h"

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <string_view>
#include <tuple>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "weightloom/base/error.h"
#include "weightloom/sharding/placement_choice_internal.h"
#include "weightloom/sharding/world_mesh_internal.h"

namespace weightloom {
namespace {

using internal::WorldAxis;
using internal::WorldMesh;
using Kind = DTensorPlacement::Kind;

/// Of one tensor; which, is told by who catches it.
[[noreturn]] void refuse(std::string code, const std::string& message) {
  throw Error(ErrorCode::plan, message, "", {{Severity::error, std::move(code), "", "", message}});
}

std::string to_string(const DTensorPlacement& placement) {
  switch (placement.kind) {
    case Kind::replicate:
      return "Replicate()";
    case Kind::shard:
      return fmt::format("Shard({})", placement.dim);
    case Kind::strided_shard:
      return fmt::format("_StridedShard({}, split_factor={})", placement.dim,
                         placement.split_factor);
  }
  __builtin_unreachable();
}

std::string placements_text(const std::vector<DTensorPlacement>& placements) {
  std::vector<std::string> texts;
  for (const DTensorPlacement& placement : placements) texts.push_back(to_string(placement));
  return fmt::format("[{}]", fmt::join(texts, ", "));
}

bool is_empty(const Shape& shape) {
  return std::ranges::any_of(shape, [](int64_t size) { return size == 0; });
}

/// What one rank says, and which.
struct Statement {
  int64_t rank = 0;
  const RankTensor* tensor = nullptr;
};
using Statements = std::vector<Statement>;  // of one tensor, by rank

[[noreturn]] void contradict(const Statement& a, const Statement& b) {
  refuse("ranks_differ", fmt::format("rank {} holds {}, and rank {} holds {}", a.rank,
                                     to_string(*a.tensor), b.rank, to_string(*b.tensor)));
}

bool agree(const RankTensor& a, const RankTensor& b) {
  return std::tie(a.dtype, a.shape, a.axes, a.placements) ==
         std::tie(b.dtype, b.shape, b.axes, b.placements);
}

/// Errors: plan if the ranks do not say the same.
void check_agreement(const Statements& all) {
  for (const Statement& each : all) {
    if (!agree(*each.tensor, *all.front().tensor)) contradict(all.front(), each);
    for (const int64_t rank : each.tensor->mesh_ranks) {
      if (std::ranges::binary_search(all, rank, {}, &Statement::rank)) continue;
      refuse("ranks_differ",
             fmt::format("rank {} says that rank {} holds a part, and that one says nothing "
                         "of it",
                         each.rank, rank));
    }
  }
}

/// The axes that a tensor is placed along; those of size 1 place nothing.
/// Errors: plan if ranks are not evenly apart, or not equally on all ranks.
std::vector<WorldAxis> axes_of(const Statements& all) {
  std::vector<WorldAxis> axes;
  const RankTensor& first = *all.front().tensor;
  if (first.axes.empty()) return axes;
  const auto strides = internal::strides_of(first);
  for (const Statement& each : all) {
    if (strides && internal::strides_of(*each.tensor) == strides) continue;
    refuse("mesh_order",
           fmt::format("rank {} has it on a mesh of the ranks [{}], which do not follow one "
                       "another evenly along each axis, or are not as far apart as those of "
                       "rank {}",
                       each.rank, fmt::join(each.tensor->mesh_ranks, ", "), all.front().rank));
  }
  for (size_t i = 0; i < first.axes.size(); ++i) {
    if (first.axes[i].size > 1) {
      axes.push_back({first.axes[i].name, first.axes[i].size, (*strides)[i]});
    }
  }
  return axes;
}

/// The steps that leave a tensor to exactly these ranks; nothing if no stages of this mesh do.
std::optional<std::vector<ShardingStep>> stages_of(const WorldMesh& world, const Statements& all) {
  std::vector<ShardingStep> steps;
  const Mesh mesh = world.mesh();
  int64_t held = 1;
  for (size_t i = 0; i < world.axes.size(); ++i) {
    std::set<int64_t> coordinates;
    for (const Statement& each : all) coordinates.insert(mesh.coordinate(each.rank, i));
    held *= std::ssize(coordinates);
    if (std::ssize(coordinates) == world.axes[i].size) continue;
    steps.emplace_back(StageStep{world.axes[i].name, {coordinates.begin(), coordinates.end()}});
  }
  if (held != std::ssize(all)) return std::nullopt;
  return steps;
}

/// A sharding of one tensor by cuts of one order, tried on what ranks hold.
struct Trial {
  Sharding sharding;
  internal::OrderTrial outcome;
};

class StateBuilder {
 public:
  explicit StateBuilder(std::span<const std::vector<RankTensor>> by_rank)
      : ranks_(std::ssize(by_rank)) {
    for (int64_t rank = 0; rank < ranks_; ++rank) {
      for (const RankTensor& tensor : by_rank[static_cast<size_t>(rank)]) {
        statements_[tensor.name].push_back({rank, &tensor});
      }
    }
  }

  JointState build() && {
    for (const auto& [name, all] : statements_) {
      attempt(name, [&] {
        if (!note_tie(name, all)) kept_.push_back({name, &all, {}});
      });
    }
    for (Kept& each : kept_) attempt(each.name, [&] { each.axes = checked_axes(*each.all); });
    refuse_faulty();
    place_all();
    refuse_faulty();
    name_meshes();
    return std::move(result_);
  }

 private:
  struct Kept {
    std::string name;
    const Statements* all = nullptr;
    std::vector<WorldAxis> axes;
  };

  template <typename Work>
  void attempt(const std::string& name, const Work& work) {
    try {
      work();
    } catch (const Error& error) {
      const bool is_told = !error.findings().empty();
      add_finding(name, is_told ? error.findings().front().code : "bad_placements", error.what());
    }
  }

  void add_finding(const std::string& name, const std::string& code, const std::string& message) {
    findings_.push_back(
        {Severity::error, code, name, "", fmt::format("tensor '{}': {}", name, message)});
  }

  void refuse_faulty() const {
    if (findings_.empty()) return;
    std::string message = findings_.front().message;
    if (findings_.size() > 1) message += fmt::format(" (and {} more)", findings_.size() - 1);
    throw Error(ErrorCode::plan, message, "", findings_);
  }

  /// True if the tensor is another's second name on all ranks that can tell.
  bool note_tie(const std::string& name, const Statements& all) {
    const Statement* tied = nullptr;
    for (const Statement& each : all) {
      if (!each.tensor->tied_to.empty() && tied == nullptr) tied = &each;
    }
    if (tied == nullptr) return false;
    for (const Statement& each : all) {
      const std::string& here = each.tensor->tied_to;
      const bool can_tell = !here.empty() || !is_empty(each.tensor->local_shape);
      if (!can_tell || here == tied->tensor->tied_to) continue;
      refuse("ranks_differ", fmt::format("on rank {} it is the memory of '{}', on rank {} {}",
                                         tied->rank, tied->tensor->tied_to, each.rank,
                                         here.empty() ? "of none" : fmt::format("of '{}'", here)));
    }
    result_.tied.emplace_back(name, tied->tensor->tied_to);
    return true;
  }

  static std::vector<WorldAxis> checked_axes(const Statements& all) {
    check_agreement(all);
    return axes_of(all);
  }

  /// Those with the most axes first, so that others find the meshes that they stand on.
  void place_all() {
    std::ranges::sort(kept_, {}, [](const Kept& each) {
      return std::pair(-std::ssize(each.axes), std::string_view(each.name));
    });
    for (const Kept& each : kept_) {
      attempt(each.name, [&] {
        const RankTensor& tensor = *each.all->front().tensor;
        result_.manifest.tensors.push_back(
            {each.name, tensor.dtype, tensor.shape, sharding_of(each)});
      });
    }
    std::ranges::sort(result_.manifest.tensors, {}, &ShardedTensor::name);
  }

  Sharding sharding_of(const Kept& each) {
    for (size_t i = 0; i < meshes_.size(); ++i) {
      if (!meshes_[i].has(each.axes)) continue;
      if (auto stages = stages_of(meshes_[i], *each.all)) {
        return fitting(each, i, *std::move(stages));
      }
    }
    std::optional<WorldMesh> mesh = internal::mesh_around(each.axes, ranks_);
    if (!mesh) {
      refuse("mesh_order", fmt::format("{} ranks do not form a mesh with [{}]", ranks_,
                                       fmt::join(each.all->front().tensor->mesh_ranks, ", ")));
    }
    auto stages = stages_of(*mesh, *each.all);
    if (!stages) {
      std::vector<int64_t> ranks;
      for (const Statement& statement : *each.all) ranks.push_back(statement.rank);
      refuse("stages", fmt::format("the ranks [{}] hold it, which are no stages of the mesh "
                                   "'{}'",
                                   fmt::join(ranks, ", "), weightloom::to_string(mesh->mesh())));
    }
    meshes_.push_back(*std::move(mesh));
    return fitting(each, meshes_.size() - 1, *stages);
  }

  /// With the cuts of the order that gives what ranks hold. Until all are known, meshes are called
  /// by their places.
  Sharding fitting(const Kept& each, size_t place, const std::vector<ShardingStep>& stages) const {
    const Trial carved = trial(each, place, stages, PlacementOrder::carving);
    const Trial straight = trial(each, place, stages, PlacementOrder::left_to_right);
    const bool alike = carved.sharding == straight.sharding;
    switch (internal::order_fit(carved.outcome, straight.outcome, alike)) {
      case internal::OrderFit::carving:
        return carved.sharding;
      case internal::OrderFit::left_to_right:
        return straight.sharding;
      case internal::OrderFit::neither:
        refuse("part_mismatch", internal::given_by_both(carved.outcome, straight.outcome));
      case internal::OrderFit::either:
        refuse_ambiguous(each, place, carved.sharding, straight.sharding);
        return carved.sharding;
    }
    __builtin_unreachable();
  }

  Trial trial(const Kept& each, size_t place, const std::vector<ShardingStep>& stages,
              PlacementOrder order) const {
    const RankTensor& tensor = *each.all->front().tensor;
    Trial result{{std::to_string(place), stages}, {.fits = true}};
    if (!tensor.axes.empty()) {
      for (CutStep& cut : cuts_of(Mesh::make(tensor.axes), tensor.placements, order)) {
        const bool cuts = std::ranges::any_of(
            each.axes, [&](const WorldAxis& axis) { return axis.name == cut.axis; });
        if (cuts) result.sharding.steps.emplace_back(std::move(cut));
      }
    }
    for (const Statement& statement : *each.all) {
      const Shape given = local_shape(*part_of(each, place, result.sharding, statement.rank));
      if (given == statement.tensor->local_shape) continue;
      result.outcome.fits = false;
      result.outcome.given =
          fmt::format("rank {} holds {}, and {} gives it {}", statement.rank,
                      weightloom::to_string(statement.tensor->local_shape),
                      placements_text(tensor.placements), weightloom::to_string(given));
      break;
    }
    return result;
  }

  std::optional<LocalPart> part_of(const Kept& each, size_t place, Sharding sharding,
                                   int64_t rank) const {
    sharding.mesh.clear();
    return local_part(sharding, MeshSet(meshes_[place].mesh()), each.all->front().tensor->shape,
                      rank);
  }

  /// If they give some rank other rows.
  void refuse_ambiguous(const Kept& each, size_t place, const Sharding& a,
                        const Sharding& b) const {
    for (const Statement& statement : *each.all) {
      if (part_of(each, place, a, statement.rank) == part_of(each, place, b, statement.rank)) {
        continue;
      }
      refuse(
          "ambiguous_placements",
          fmt::format("{} on a mesh '{}' stands for other rows of rank {} where FSDP cut "
                      "last than as torch reads the placements, and the shapes fit both",
                      placements_text(statement.tensor->placements),
                      weightloom::to_string(Mesh::make(statement.tensor->axes)), statement.rank));
    }
  }

  /// The only mesh needs no name; of several the first is meant where none is named.
  void name_meshes() {
    if (meshes_.empty()) meshes_.push_back(*internal::mesh_around({}, ranks_));
    std::vector<NamedMesh> named;
    for (const WorldMesh& world : meshes_) {
      std::string name = meshes_.size() == 1 ? "" : world.joined_names();
      for (int i = 2; std::ranges::find(named, name, &NamedMesh::name) != named.end(); ++i) {
        name = fmt::format("{}_{}", world.joined_names(), i);
      }
      named.push_back({std::move(name), world.mesh()});
    }
    for (ShardedTensor& tensor : result_.manifest.tensors) {
      const size_t place = std::stoul(tensor.sharding.mesh);
      tensor.sharding.mesh = place == 0 ? "" : named[place].name;
    }
    result_.manifest.meshes = MeshSet::make(std::move(named));
  }

  int64_t ranks_;
  std::map<std::string, Statements> statements_;
  std::vector<Kept> kept_;
  std::vector<WorldMesh> meshes_;
  std::vector<Finding> findings_;
  JointState result_;
};

}  // namespace

std::string to_string(const RankTensor& tensor) {
  const std::string kind = fmt::format("{} {}", to_string(tensor.dtype), to_string(tensor.shape));
  if (tensor.axes.empty()) return kind + ", whole";
  std::vector<std::string> axes;
  for (const MeshAxis& axis : tensor.axes) {
    axes.push_back(fmt::format("{}={}", axis.name, axis.size));
  }
  return fmt::format("{} of {} on the mesh '{}' as {}", to_string(tensor.local_shape), kind,
                     fmt::join(axes, ","), placements_text(tensor.placements));
}

JointState state_of(std::span<const std::vector<RankTensor>> by_rank) {
  return StateBuilder(by_rank).build();
}

}  // namespace weightloom
