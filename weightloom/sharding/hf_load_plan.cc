#include "weightloom/sharding/hf_load_plan.h"

#include <algorithm>
#include <set>
#include <utility>

#include <fmt/format.h>

#include "weightloom/base/checked.h"
#include "weightloom/base/error.h"
#include "weightloom/base/quote.h"
#include "weightloom/layout/operations.h"
#include "weightloom/sharding/spec_adapter.h"

namespace weightloom {
namespace {

/// Rows of one dim that are copied as they stand.
struct Stretch {
  int64_t key = 0;     // its place, in the spec's list or in hf_keys
  int64_t source = 0;  // first row: in the whole dim, or in the key
  int64_t target = 0;
  int64_t size = 0;
};

std::vector<Stretch> stretches_of(const Segments& segments) {
  std::vector<Stretch> result;
  int64_t at = 0;
  for (const Segment& segment : segments) {
    if (!segment.is_pad) result.push_back({0, segment.begin, at, segment.size});
    at += segment.size;
  }
  return result;
}

std::vector<Stretch> split_at_keys(const std::vector<Stretch>& whole, int64_t key_size) {
  std::vector<Stretch> result;
  for (const Stretch& stretch : whole) {
    const int64_t end = stretch.source + stretch.size;
    for (int64_t row = stretch.source; row < end;) {
      const int64_t key = row / key_size;
      const int64_t until = std::min(end, (key + 1) * key_size);
      result.push_back(
          {key, row - key * key_size, stretch.target + row - stretch.source, until - row});
      row = until;
    }
  }
  return result;
}

/// The product of one stretch of each dim, dim 0 outermost.
class Boxes {
 public:
  explicit Boxes(std::span<const std::vector<Stretch>> dims) : dims_(dims) { extend(0); }

  std::vector<KeyRegion> take() && { return std::move(boxes_); }

 private:
  void extend(size_t dim) {
    if (dim == dims_.size()) {
      boxes_.push_back(box_);
      return;
    }
    for (const Stretch& stretch : dims_[dim]) {
      const KeyRegion before = box_;
      box_.key += stretch.key;
      box_.source_offset.push_back(stretch.source);
      box_.target_offset.push_back(stretch.target);
      box_.size.push_back(stretch.size);
      extend(dim + 1);
      box_ = before;
    }
  }

  const std::span<const std::vector<Stretch>> dims_;
  KeyRegion box_;
  std::vector<KeyRegion> boxes_;
};

/// Along the fused dim, over the keys needed put together: neighbours joined again.
std::vector<Stretch> over_needed(const std::vector<Stretch>& by_key, int64_t key_size) {
  std::vector<Stretch> result;
  for (const Stretch& piece : by_key) {
    const int64_t source = piece.key * key_size + piece.source;
    if (!result.empty()) {
      Stretch& last = result.back();
      if (last.source + last.size == source && last.target + last.size == piece.target) {
        last.size += piece.size;
        continue;
      }
    }
    result.push_back({0, source, piece.target, piece.size});
  }
  return result;
}

/// The stretches again as segments, with padding between.
Segments segments_of(const std::vector<Stretch>& stretches, int64_t length) {
  Segments segments;
  int64_t at = 0;
  for (const Stretch& stretch : stretches) {
    append_segment(segments, {0, stretch.target - at, true});
    append_segment(segments, {stretch.source, stretch.size, false});
    at = stretch.target + stretch.size;
  }
  append_segment(segments, {0, length - at, true});
  return segments;
}

/// Sets the keys of the plan to those at `places` of the spec's list.
void set_keys(HFLoadPlan& plan, const LoadSpec& spec, const std::set<int64_t>& places) {
  for (const int64_t place : places) {
    plan.hf_keys.push_back(spec.global_hf_keys()[static_cast<size_t>(place)]);
  }
  if (!places.empty()) plan.key_range = {*places.begin(), *places.rbegin() + 1};
}

int64_t place_in(const std::set<int64_t>& places, int64_t key) {
  return std::distance(places.begin(), places.find(key));
}

/// Where each key is needed of one dim, and the numbers of keys as places among those needed.
std::set<int64_t> renumber(std::vector<Stretch>& by_key) {
  std::set<int64_t> places;
  for (const Stretch& piece : by_key) places.insert(piece.key);
  for (Stretch& piece : by_key) piece.key = place_in(places, piece.key);
  return places;
}

void set_slices(HFLoadPlan& plan) {
  if (plan.copy_regions.size() != 1) return;
  const CopyRegion& box = plan.copy_regions.front();
  plan.is_one_box = std::ranges::all_of(box.target_offset, [](int64_t at) { return at == 0; });
  for (size_t i = 0; plan.is_one_box && i < box.size.size(); ++i) {
    if (box.size[i] == plan.canonical_source_shape[i]) continue;
    plan.slices.push_back(
        {static_cast<int>(i), box.source_offset[i], box.source_offset[i] + box.size[i]});
  }
}

/// Stripes of several dims multiply.
void refuse_too_many(const LoadSpec& spec, std::span<const std::vector<Stretch>> dims) {
  if (std::ranges::any_of(dims, &std::vector<Stretch>::empty)) return;
  int64_t boxes = 1;
  for (const std::vector<Stretch>& stretches : dims) {
    const auto more = checked_mul(boxes, std::ssize(stretches));
    if (!more || *more > kMaxRegions) {
      throw Error(ErrorCode::plan,
                  fmt::format("LoadSpec {}: a rank's part has more than {} boxes",
                              quote(spec.name()), kMaxRegions),
                  "cut into fewer stripes");
    }
    boxes = *more;
  }
}

/// Without an adapter: boxes of keys.
void plan_boxes(HFLoadPlan& plan, const LoadSpec& spec, const LocalPart& part) {
  std::vector<std::vector<Stretch>> dims;
  for (const Segments& segments : part) dims.push_back(stretches_of(segments));
  std::vector<std::vector<Stretch>> concatenated = dims;
  plan.canonical_source_shape = spec.unpadded_global_shape();
  std::set<int64_t> places = {0};
  if (spec.is_fused()) {
    const auto d = static_cast<size_t>(*spec.fused_dim());
    const int64_t rows = *key_size(spec);
    dims[d] = split_at_keys(dims[d], rows);
    places = renumber(dims[d]);
    concatenated[d] = over_needed(dims[d], rows);
    plan.canonical_source_shape[d] = std::ssize(places) * rows;
  }
  refuse_too_many(spec, dims);
  plan.key_regions = Boxes(dims).take();
  if (plan.key_regions.empty()) return;
  set_keys(plan, spec, places);
  for (KeyRegion& box : Boxes(concatenated).take()) {
    plan.copy_regions.push_back(
        {std::move(box.source_offset), std::move(box.target_offset), std::move(box.size)});
  }
  set_slices(plan);
  std::vector<Layout> keys;
  for (size_t i = 0; i < plan.hf_keys.size(); ++i) {
    keys.push_back(identity(static_cast<SourceId>(i), plan.key_shape));
  }
  LocalPart over_keys;
  for (size_t d = 0; d < part.size(); ++d) {
    over_keys.push_back(segments_of(concatenated[d], length(part[d])));
  }
  plan.layout = select(spec.is_fused() ? concat(keys, *spec.fused_dim()) : keys[0], over_keys);
}

/// With one: the part of what it gives, of whose sources those that are needed remain.
void plan_through_adapter(HFLoadPlan& plan, const LoadSpec& spec, const LocalPart& part,
                          const ModelConfig& config) {
  std::vector<Layout> keys;
  for (size_t i = 0; i < spec.global_hf_keys().size(); ++i) {
    keys.push_back(identity(static_cast<SourceId>(i), plan.key_shape));
  }
  const Layout local = select(put_together(spec, keys, config), part);
  std::set<int64_t> places;
  for (const Region& region : local.regions()) {
    if (!region.is_pad()) places.insert(region.source);
  }
  if (places.empty()) return;
  set_keys(plan, spec, places);
  std::vector<Region> regions(local.regions().begin(), local.regions().end());
  for (Region& region : regions) {
    if (!region.is_pad()) region.source = static_cast<SourceId>(place_in(places, region.source));
  }
  plan.canonical_source_shape = spec.unpadded_global_shape();
  plan.layout = Layout::unchecked(local.shape(), std::move(regions));
}

bool has_pads(const Layout& layout) {
  return std::ranges::any_of(layout.regions(), &Region::is_pad);
}

}  // namespace

HFLoadPlan plan_hf_load(const LoadSpec& spec, const ModelConfig& config) {
  if (!spec.is_bound()) {
    throw Error(ErrorCode::usage,
                fmt::format("LoadSpec {}: its shards are along axes of a mesh", quote(spec.name())),
                "bind it to a rank of a mesh first");
  }
  const LocalPart part = local_part(spec);
  HFLoadPlan plan;
  plan.name = spec.name();
  plan.fused_dim = spec.fused_dim();
  plan.target_shape = local_shape(part);
  plan.key_shape = key_shape(spec, config);
  if (spec.adapter().empty()) {
    plan_boxes(plan, spec, part);
  } else {
    plan_through_adapter(plan, spec, part, config);
  }
  plan.zero_fill = plan.hf_keys.empty();
  if (plan.zero_fill) {
    plan.canonical_source_shape.clear();
    plan.layout = constant(0, plan.target_shape);
  }
  plan.zero_unwritten_target = has_pads(plan.layout);
  return plan;
}

}  // namespace weightloom
