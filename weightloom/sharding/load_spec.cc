#include "weightloom/sharding/load_spec.h"

#include <algorithm>
#include <numeric>
#include <set>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "weightloom/base/checked.h"
#include "weightloom/base/error.h"
#include "weightloom/base/quote.h"

namespace weightloom {
namespace {

constexpr const char* kOnlyRank = "rank";

/// Refuses with the spec's name in front.
template <typename... Args>
[[noreturn]] void refuse(const LoadSpecFields& fields, fmt::format_string<Args...> text,
                         Args&&... args) {
  throw Error(ErrorCode::usage, fmt::format("LoadSpec {}: {}", quote(fields.name),
                                            fmt::format(text, std::forward<Args>(args)...)));
}

size_t index(int dim) { return static_cast<size_t>(dim); }

const Shape& visible_shape(const LoadSpecFields& fields) {
  return fields.origin_shape ? *fields.origin_shape : fields.global_shape;
}

void check_keys(const LoadSpecFields& fields) {
  const auto& keys = fields.global_hf_keys;
  if (fields.name.empty()) refuse(fields, "a spec needs a name");
  if (keys.empty()) refuse(fields, "no key is named in global_hf_keys");
  const std::set<std::string> distinct(keys.begin(), keys.end());
  if (distinct.size() != keys.size()) {
    refuse(fields, "global_hf_keys has {} names, of which {} are distinct", keys.size(),
           distinct.size());
  }
  if (keys.size() > 1 && !fields.fused_dim) {
    refuse(fields, "{} keys need a fused_dim, along which they are put together", keys.size());
  }
  if (keys.size() == 1 && fields.fused_dim) {
    refuse(fields, "fused_dim is {}, but there is one key only", *fields.fused_dim);
  }
}

bool has_dim(const LoadSpecFields& fields, int dim) {
  return dim >= 0 && dim < std::ssize(fields.global_shape);
}

void check_shapes(const LoadSpecFields& fields) {
  const Shape& global = fields.global_shape;
  if (!checked_elements(global)) refuse(fields, "{} is no shape", to_string(global));
  if (fields.fused_dim && fields.adapter.empty() && !has_dim(fields, *fields.fused_dim)) {
    refuse(fields, "fused_dim is {} of a tensor {}", *fields.fused_dim, to_string(global));
  }
  if (!fields.origin_shape) return;
  const Shape& origin = *fields.origin_shape;
  bool fits = origin.size() == global.size();
  for (size_t i = 0; fits && i < origin.size(); ++i) {
    fits = origin[i] >= 0 && origin[i] <= global[i];
  }
  if (!fits) {
    refuse(fields, "origin_shape {} is not inside global_shape {}", to_string(origin),
           to_string(global));
  }
}

void check_form(const LoadSpecFields& fields, size_t place) {
  const ShardDescriptor& shard = fields.shards[place];
  if (!has_dim(fields, shard.dim)) {
    refuse(fields, "shard {}: dim {} of a tensor of {} dims", place, shard.dim,
           fields.global_shape.size());
  }
  if (shard.start.has_value() != shard.end.has_value()) {
    refuse(fields, "shard {}: start and end go together", place);
  }
  if (shard.size.has_value() != shard.rank.has_value()) {
    refuse(fields, "shard {}: size and rank go together", place);
  }
  if (!shard.size && !shard.start && shard.axis.empty()) {
    refuse(fields, "shard {}: needs start and end, size and rank, or an axis", place);
  }
  if (shard.start && (*shard.start < 0 || *shard.start > *shard.end)) {
    refuse(fields, "shard {}: [{}, {}) are no rows", place, *shard.start, *shard.end);
  }
  const bool may_stripe = !shard.start || shard.size;
  if (shard.interleave < 1 || shard.interleave > (may_stripe ? kMaxRegions : 1)) {
    refuse(fields, "shard {}: interleave is {}, needed 1 to {}{}", place, shard.interleave,
           may_stripe ? kMaxRegions : 1, may_stripe ? "" : " where only rows are told");
  }
  if (shard.size && (*shard.size < 1 || *shard.rank < 0 || *shard.rank >= *shard.size)) {
    refuse(fields, "shard {}: rank {} of {}", place, *shard.rank, *shard.size);
  }
}

bool is_on(const ShardDescriptor& shard, const std::string& axis) {
  if (shard.axis == axis) return true;
  const auto* name = shard.group ? std::get_if<std::string>(&*shard.group) : nullptr;
  return name != nullptr && *name == axis;
}

/// The place of the shard whose parts are padded; nothing if padding is of another scope.
std::optional<size_t> padded_shard(const LoadSpecFields& fields) {
  if (fields.padding.scope != PadScope::per_cut) return std::nullopt;
  for (size_t i = 0; i < fields.shards.size(); ++i) {
    if (is_on(fields.shards[i], fields.padding.axis)) return i;
  }
  refuse(fields, "padding: no shard is on '{}'", fields.padding.axis);
}

Cut cut_of(const ShardDescriptor& shard) { return {.stripes = shard.interleave}; }

/// Rows of dim `dim` that a part has once padded, if its parts are: of the shard at `padded`, and
/// `sizes` of the groups.
int64_t padded_part(const LoadSpecFields& fields, size_t padded, std::span<const int64_t> sizes) {
  const int dim = fields.shards[padded].dim;
  int64_t parts = 1;
  for (size_t i = 0; i <= padded; ++i) {
    if (fields.shards[i].dim != dim) continue;
    if (sizes[i] == 0) {
      refuse(fields, "padding: shard {} has rows, and no size that tells how parts are padded", i);
    }
    const auto more = checked_mul(parts, sizes[i]);
    if (!more || fields.global_shape[index(dim)] % *more != 0) {
      refuse(fields, "padding: {} rows of dim {} do not divide by {} times {} padded parts",
             fields.global_shape[index(dim)], dim, parts, sizes[i]);
    }
    parts = *more;
  }
  return fields.global_shape[index(dim)] / parts;
}

/// Pads before any cut.
std::vector<ShardingStep> pads_of(const LoadSpecFields& fields) {
  std::vector<ShardingStep> steps;
  const auto padded = padded_shard(fields);
  for (size_t dim = 0; dim < fields.global_shape.size(); ++dim) {
    const int64_t visible = visible_shape(fields)[dim];
    const int64_t whole = fields.global_shape[dim];
    const bool is_per_cut = padded && index(fields.shards[*padded].dim) == dim;
    if (visible == whole || is_per_cut) continue;
    PadStep pad{.dim = static_cast<int>(dim), .least = whole};
    if (fields.padding.scope == PadScope::per_key && fields.fused_dim == pad.dim) {
      pad.groups = std::ssize(fields.global_hf_keys);
      if (visible % pad.groups != 0 || whole % pad.groups != 0) {
        refuse(fields, "padding: {} rows, {} without padding, do not divide by {} keys", whole,
               visible, pad.groups);
      }
      pad.least = whole / pad.groups;
    }
    steps.emplace_back(pad);
  }
  return steps;
}

/// Sizes of the groups of a bound spec's shards; 0 where only rows are told.
std::vector<int64_t> group_sizes(const LoadSpecFields& fields) {
  std::vector<int64_t> sizes;
  for (const ShardDescriptor& shard : fields.shards) sizes.push_back(shard.size.value_or(0));
  return sizes;
}

int64_t rows_left(const LoadSpecFields& fields, const Sharding& so_far, int dim) {
  const auto part = local_part(so_far, one_rank(), visible_shape(fields), 0);
  return length((*part)[index(dim)]);
}

/// The rows of a bound shard, in what the shards before left.
std::vector<Interval> rows_of(const LoadSpecFields& fields, size_t place, int64_t left) {
  const ShardDescriptor& shard = fields.shards[place];
  if (shard.start && *shard.end > left) {
    refuse(fields, "shard {}: rows [{}, {}) of dim {}, of which [0, {}) are left", place,
           *shard.start, *shard.end, shard.dim, left);
  }
  if (!shard.size) return {{*shard.start, *shard.end}};
  std::vector<Interval> rows = part_of(cut_of(shard), left, *shard.size, *shard.rank);
  if (!shard.start) return rows;
  const Interval told{*shard.start, *shard.end};
  const bool agrees = rows.empty() ? told.size() == 0 : rows.size() == 1 && rows.front() == told;
  if (!agrees) {
    refuse(fields, "shard {}: rows [{}, {}) are not part {} of {} of {} rows in {} stripes", place,
           told.begin, told.end, *shard.rank, *shard.size, left, shard.interleave);
  }
  return rows;
}

/// The steps of the shards at these places of a bound spec, as tables of one rank.
Sharding bound_sharding(const LoadSpecFields& fields, std::span<const size_t> places) {
  Sharding sharding{.steps = pads_of(fields)};
  const auto padded = padded_shard(fields);
  for (const size_t place : places) {
    const int dim = fields.shards[place].dim;
    const int64_t left = rows_left(fields, sharding, dim);
    sharding.steps.emplace_back(
        CutStep{kOnlyRank, dim, {.rule = CutRule::table, .table = {rows_of(fields, place, left)}}});
    if (place != padded) continue;
    sharding.steps.emplace_back(
        PadStep{.dim = dim, .least = padded_part(fields, place, group_sizes(fields))});
  }
  return sharding;
}

std::vector<size_t> all_places(const LoadSpecFields& fields) {
  std::vector<size_t> places(fields.shards.size());
  std::iota(places.begin(), places.end(), size_t{0});
  return places;
}

/// Of the parts of a chunked dim the first, the one that may be short and the last: all others are
/// as long as one of these.
std::set<int64_t> parts_that_differ(int64_t rows, int64_t parts) {
  const int64_t full = std::max<int64_t>(ceil_div(rows, parts), 1);
  return {0, std::min(rows / full, parts - 1), parts - 1};
}

/// The sizes that a dim may have on ranks of the groups, as the shards are taken: what one rank
/// refuses, all ranks refuse, before they wait for one another.
class SizesOnRanks {
 public:
  SizesOnRanks(const LoadSpecFields& fields, std::span<const int64_t> sizes)
      : fields_(fields), group_sizes_(sizes), padded_(padded_shard(fields)) {
    const std::vector<ShardingStep> pads = pads_of(fields);
    const auto part = local_part({.steps = pads}, one_rank(), visible_shape(fields), 0);
    for (const int64_t rows : local_shape(*part)) rows_.push_back({rows});
  }

  void take(size_t place) {
    const ShardDescriptor& shard = fields_.shards[place];
    std::set<int64_t> left;
    for (const int64_t rows : rows_[index(shard.dim)]) take_rows(place, rows, left);
    rows_[index(shard.dim)] = std::move(left);
  }

 private:
  void take_rows(size_t place, int64_t rows, std::set<int64_t>& left) const {
    const ShardDescriptor& shard = fields_.shards[place];
    const int64_t size = group_sizes_[place];
    if (size == 0) {
      left.insert(*shard.end - *shard.start);
      return;
    }
    const auto pieces = checked_mul(size, shard.interleave);
    if (shard.interleave > 1 && (!pieces || rows % *pieces != 0)) {
      refuse(fields_, "shard {}: {} rows of dim {} do not divide into {} stripes for {} ranks",
             place, rows, shard.dim, shard.interleave, size);
    }
    const int64_t least = place == padded_ ? padded_part(fields_, place, group_sizes_) : 0;
    for (const int64_t part : parts_that_differ(rows, size)) {
      int64_t held = 0;
      for (const Interval& mine : part_of(cut_of(shard), rows, size, part)) held += mine.size();
      left.insert(std::max(held, least));
    }
  }

  const LoadSpecFields& fields_;
  const std::span<const int64_t> group_sizes_;
  const std::optional<size_t> padded_;
  std::vector<std::set<int64_t>> rows_;
};

void check_all_ranks(const LoadSpecFields& fields, std::span<const int64_t> sizes) {
  SizesOnRanks ranks(fields, sizes);
  for (size_t i = 0; i < fields.shards.size(); ++i) ranks.take(i);
}

void check_bound(const LoadSpecFields& fields) {
  check_all_ranks(fields, group_sizes(fields));
  const Sharding sharding = bound_sharding(fields, all_places(fields));
  if (!fields.local_shape) return;
  const Shape derived = local_shape(*local_part(sharding, one_rank(), visible_shape(fields), 0));
  if (derived != *fields.local_shape) {
    refuse(fields, "local_shape is recorded as {}, but the shards give {}",
           to_string(*fields.local_shape), to_string(derived));
  }
}

bool is_bound_fields(const LoadSpecFields& fields) {
  return std::ranges::none_of(fields.shards, &ShardDescriptor::is_unbound);
}

/// The first mesh that has all axes of the spec.
const NamedMesh& mesh_for(const LoadSpec& spec, const MeshSet& meshes) {
  for (const NamedMesh& mesh : meshes.meshes()) {
    const bool has_all = std::ranges::all_of(spec.shards(), [&](const ShardDescriptor& shard) {
      return !shard.is_unbound() || mesh.mesh.find(shard.axis);
    });
    if (has_all) return mesh;
  }
  std::set<std::string> axes;
  for (const ShardDescriptor& shard : spec.shards()) axes.insert(quote(shard.axis));
  refuse(spec.fields(), "no mesh of '{}' has the axes {}", to_string(meshes),
         fmt::join(axes, ", "));
}

std::vector<int64_t> axis_sizes(const LoadSpec& spec, const Mesh& mesh) {
  std::vector<int64_t> sizes;
  for (const ShardDescriptor& shard : spec.shards()) {
    if (!shard.is_unbound()) {
      refuse(spec.fields(), "some shards are along an axis, others are bound to one rank");
    }
    sizes.push_back(mesh.axes()[*mesh.find(shard.axis)].size);
  }
  return sizes;
}

}  // namespace

std::string group_text(const ShardGroup& group) {
  const auto* name = std::get_if<std::string>(&group);
  return name != nullptr ? quote(*name) : to_string(std::get<std::vector<int64_t>>(group));
}

LoadSpec LoadSpec::make(LoadSpecFields fields) {
  check_keys(fields);
  check_shapes(fields);
  for (size_t i = 0; i < fields.shards.size(); ++i) check_form(fields, i);
  static_cast<void>(pads_of(fields));
  if (is_bound_fields(fields)) check_bound(fields);
  return LoadSpec(std::move(fields));
}

bool LoadSpec::is_bound() const noexcept { return is_bound_fields(fields_); }

MeshSet one_rank() { return MeshSet(Mesh::make({{kOnlyRank, 1}})); }

LoadSpec bind(const LoadSpec& spec, const MeshSet& meshes, int64_t rank) {
  if (spec.is_bound()) return spec;
  const Mesh& mesh = mesh_for(spec, meshes).mesh;
  if (rank < 0 || rank >= mesh.size()) {
    refuse(spec.fields(), "rank {} of a mesh of {} ranks ({})", rank, mesh.size(), to_string(mesh));
  }
  LoadSpecFields fields = spec.fields();
  for (ShardDescriptor& shard : fields.shards) {
    if (!shard.is_unbound()) continue;
    const size_t place = *mesh.find(shard.axis);
    shard.size = mesh.axes()[place].size;
    shard.rank = mesh.coordinate(rank, place);
    if (!shard.group) shard.group = mesh.group_of(rank, std::span(&place, 1));
  }
  return LoadSpec::make(std::move(fields));
}

Sharding to_sharding(const LoadSpec& spec, const MeshSet& meshes) {
  const LoadSpecFields& fields = spec.fields();
  if (spec.is_bound()) return bound_sharding(fields, all_places(fields));
  const NamedMesh& mesh = mesh_for(spec, meshes);
  const std::vector<int64_t> sizes = axis_sizes(spec, mesh.mesh);
  check_all_ranks(fields, sizes);
  Sharding sharding{mesh.name, pads_of(fields)};
  const auto padded = padded_shard(fields);
  for (size_t i = 0; i < fields.shards.size(); ++i) {
    const ShardDescriptor& shard = fields.shards[i];
    sharding.steps.emplace_back(CutStep{shard.axis, shard.dim, cut_of(shard)});
    if (i != padded) continue;
    sharding.steps.emplace_back(PadStep{.dim = shard.dim, .least = padded_part(fields, i, sizes)});
  }
  return sharding;
}

LocalPart local_part(const LoadSpec& spec, std::span<const size_t> shards) {
  return *local_part(bound_sharding(spec.fields(), shards), one_rank(),
                     spec.unpadded_global_shape(), 0);
}

LocalPart local_part(const LoadSpec& spec) { return local_part(spec, all_places(spec.fields())); }

void check_tensor(const LoadSpec& spec, const HeldTensor& tensor, std::optional<DType> dtype) {
  const Shape derived = local_shape(local_part(spec));
  std::string fault;
  if (tensor.shape != derived) {
    fault = fmt::format("tensor {} has shape {}, but its LoadSpec gives {}", quote(spec.name()),
                        to_string(tensor.shape), to_string(derived));
  } else if (dtype && *dtype != tensor.dtype) {
    fault = fmt::format("tensor {} is {}, but {} is needed", quote(spec.name()),
                        to_string(tensor.dtype), to_string(*dtype));
  }
  if (fault.empty()) return;
  throw Error(ErrorCode::usage, fault,
              "derive the spec anew after each change of the tensor's layout");
}

std::optional<int64_t> key_size(const LoadSpec& spec) {
  if (!spec.is_fused()) return std::nullopt;
  const int64_t rows = spec.unpadded_global_shape()[index(*spec.fused_dim())];
  const int64_t keys = std::ssize(spec.global_hf_keys());
  if (rows % keys != 0) {
    refuse(spec.fields(), "{} rows of fused_dim {} do not divide by {} keys", rows,
           *spec.fused_dim(), keys);
  }
  return rows / keys;
}

}  // namespace weightloom
