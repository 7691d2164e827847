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

template <typename Visit>
void for_each_sourced(const CopyProgram& program, Visit visit) {
  for (const ProgramTarget& target : program.targets()) {
    for (const Region& region : target.regions) {
      if (!region.is_pad()) visit(target, region);
    }
  }
}

std::vector<Hull> hulls_of(const CopyProgram& program) {
  std::vector<Hull> hulls;
  hulls.reserve(static_cast<size_t>(program.region_count()));
  for_each_sourced(program, [&](const ProgramTarget& target, const Region& region) {
    const ProgramSource& source = program.sources()[static_cast<size_t>(region.source)];
    const int64_t begin = source.offset_bytes + region.source_offset;
    const int64_t point_bytes = program.type_of(target, region).source_bytes();
    hulls.push_back({source.file, begin, begin + source_span(region) + point_bytes, hulls.size()});
  });
  return hulls;
}

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
    if (place >= numbers_.size()) numbers_.resize(place + 1, -1);
    if (numbers_[place] < 0) numbers_[place] = next_++;
    return numbers_[place];
  }

 private:
  std::vector<int64_t> numbers_;
  int64_t next_ = 0;
};

/// Writes down all that the form holds, one number after another.
class FormWriter {
 public:
  explicit FormWriter(const CopyProgram& program)
      : program_(program), places_(clusters_of(hulls_of(program))) {
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
    const ClusterPlace& place = places_[next_++];
    put({clusters_.of(place.cluster), place.distance_bytes,
         static_cast<int64_t>(program_.type_of(target, region).from)});
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
