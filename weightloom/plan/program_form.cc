#include "weightloom/plan/program_form.h"

#include <algorithm>
#include <initializer_list>
#include <tuple>
#include <vector>

#include <xxhash.h>

namespace weightloom {
namespace {

/// The bytes of a file from the first to the last that a region takes.
struct Hull {
  int32_t file = 0;
  int64_t begin = 0;
  int64_t end = 0;
  size_t region = 0;  // by its place among all regions that have a source
};

/// Where a region's source stands: how far from the begin of which cluster.
struct ClusterPlace {
  size_t cluster = 0;
  int64_t distance_bytes = 0;
};

/// The hulls of all regions that read files: of targets, and behind a region that is the first to
/// take of a node those of what the node takes, whole.
class HullWalk {
 public:
  explicit HullWalk(const CopyProgram& program)
      : program_(program), is_known_(program.nodes().size()) {
    hulls_.reserve(static_cast<size_t>(program.region_count()));
    for (const ProgramTarget& target : program.targets()) add(target);
  }

  std::vector<Hull> hulls() && { return std::move(hulls_); }

 private:
  void add(const ProgramTarget& target) {
    for (const Region& region : target.regions) {
      if (!region.is_pad()) add(target, region);
    }
  }

  void add(const ProgramTarget& target, const Region& region) {
    const ProgramSource& source = program_.source_of(region);
    if (source.is_computed()) return add_node(static_cast<size_t>(source.node));
    const int64_t begin = source.offset_bytes + region.source_offset;
    const int64_t point_bytes = program_.type_of(target, region).source_bytes();
    const int64_t end = begin + source_span(region) + point_bytes;
    hulls_.push_back({source.file, begin, end, hulls_.size()});
  }

  void add_node(size_t node) {
    if (is_known_[node]) return;
    is_known_[node] = true;
    for (const ProgramTarget& input : program_.nodes()[node].inputs) add(input);
  }

  const CopyProgram& program_;
  std::vector<bool> is_known_;  // of each node
  std::vector<Hull> hulls_;
};

/// Of each region that has a source, in order; clusters are numbered as they stand in the files.
std::vector<ClusterPlace> clusters_of(std::vector<Hull> hulls) {
  std::ranges::sort(hulls, {}, [](const Hull& hull) { return std::tie(hull.file, hull.begin); });
  std::vector<ClusterPlace> places(hulls.size());
  size_t cluster = 0;
  Hull reached;  // the file, begin and end of the cluster so far
  for (const Hull& hull : hulls) {
    if (cluster == 0 || hull.file != reached.file || hull.begin > reached.end) {
      ++cluster;
      reached = hull;
    }
    reached.end = std::max(reached.end, hull.end);
    places[hull.region] = {cluster, hull.begin - reached.begin};
  }
  return places;
}

/// Gives numbers to places as they come: 0, 1, 2, …
class Numbering {
 public:
  int64_t of(size_t place) {
    if (!has(place)) numbers_[place] = next_++;
    return numbers_[place];
  }

  /// True if it has come before.
  bool has(size_t place) {
    if (place >= numbers_.size()) numbers_.resize(place + 1, -1);
    return numbers_[place] >= 0;
  }

 private:
  std::vector<int64_t> numbers_;
  int64_t next_ = 0;
};

/// Writes down all that the form holds, one number after another.
class FormWriter {
 public:
  explicit FormWriter(const CopyProgram& program)
      : program_(program), places_(clusters_of(HullWalk(program).hulls())) {
    numbers_.reserve(8 * program.targets().size() +
                     12 * static_cast<size_t>(program.region_count()));
  }

  void add(const ProgramTarget& target, const Placement& at) {
    put({at.space, at.offset_bytes, target.size_bytes, static_cast<int64_t>(target.dtype)});
    put({target.disjoint_hulls ? 1 : 0, target.has_casts ? 1 : 0, number_of_family(target.family),
         std::ssize(target.shape)});
    for (const int64_t size : target.shape) put({size});
    put({std::ssize(target.regions)});
    for (const Region& region : target.regions) add(target, region);
  }

  ProgramForm form() const {
    const XXH128_hash_t hash = XXH3_128bits(numbers_.data(), numbers_.size() * sizeof(numbers_[0]));
    return {{hash.low64, hash.high64}};
  }

 private:
  void add(const ProgramTarget& target, const Region& region) {
    put({region.target_offset, std::ssize(region.axes)});
    for (const Axis& axis : region.axes) {
      put({axis.extent, axis.target_stride, axis.source_stride});
    }
    if (region.is_pad()) return put({-1});
    if (program_.source_of(region).is_computed()) return add_computed(target, region);
    const ClusterPlace& place = places_[next_++];
    put({clusters_.of(place.cluster), place.distance_bytes,
         static_cast<int64_t>(program_.type_of(target, region).from)});
  }

  /// Where in the values a region takes them from decides which blocks are computed.
  void add_computed(const ProgramTarget& target, const Region& region) {
    const ProgramSource& source = program_.source_of(region);
    const auto node = static_cast<size_t>(source.node);
    const bool is_known = nodes_.has(node);
    put({-2, nodes_.of(node), source.result, region.source_offset,
         static_cast<int64_t>(program_.type_of(target, region).from)});
    if (!is_known) add(program_.nodes()[node]);
  }

  void add(const ProgramNode& node) {
    add(node.codec);
    put({node.encodes ? 1 : 0, std::ssize(node.shape), std::ssize(node.inputs)});
    for (const int64_t size : node.shape) put({size});
    for (const ProgramTarget& input : node.inputs) add(input, Placement{});
  }

  /// What decides which boxes belong together; not the numbers that values are made with.
  void add(const BlockCodec& codec) {
    put({static_cast<int64_t>(codec.format), static_cast<int64_t>(codec.code_dtype),
         static_cast<int64_t>(codec.scale_dtype), codec.block_rows, codec.block_cols, codec.bits});
    put({static_cast<int64_t>(codec.global_scale), codec.zero_points ? 1 : 0,
         codec.group_index ? 1 : 0, codec.groups});
  }

  int64_t number_of_family(int32_t family) {
    return family < 0 ? -1 : families_.of(static_cast<size_t>(family));
  }

  void put(std::initializer_list<int64_t> numbers) {
    numbers_.insert(numbers_.end(), numbers.begin(), numbers.end());
  }

  const CopyProgram& program_;
  const std::vector<ClusterPlace> places_;
  size_t next_ = 0;  // into places_
  Numbering clusters_;
  Numbering families_;
  Numbering nodes_;
  std::vector<int64_t> numbers_;
};

}  // namespace

ProgramForm form_of(const CopyProgram& program, std::span<const Placement> placements) {
  FormWriter writer(program);
  for (size_t i = 0; i < program.targets().size(); ++i) {
    writer.add(program.targets()[i], placements[i]);
  }
  return writer.form();
}

}  // namespace weightloom
