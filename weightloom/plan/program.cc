#include "weightloom/plan/program.h"

#include <algorithm>
#include <utility>

#include "weightloom/layout/factor_clip.h"

namespace weightloom {

CopyProgram::CopyProgram(std::vector<ProgramFile> files, std::vector<ProgramSource> sources,
                         std::vector<ProgramTarget> targets)
    : files_(std::move(files)), sources_(std::move(sources)), targets_(std::move(targets)) {
  for (const ProgramTarget& target : targets_) {
    target_bytes_ += target.size_bytes;
    region_count_ += static_cast<int64_t>(target.regions.size());
  }
}

RegionType CopyProgram::type_of(const ProgramTarget& target, const Region& region) const noexcept {
  if (!target.has_casts || region.is_pad()) return {};
  const DType from = sources_[static_cast<size_t>(region.source)].dtype;
  return from == target.dtype ? RegionType{} : RegionType{from, target.dtype};
}

std::vector<Region> clip_target(const ProgramTarget& target, int64_t begin, int64_t end) {
  if (begin == 0 && end == target.size_bytes) return target.regions;
  auto first = target.regions.begin();
  if (target.disjoint_hulls) {
    first = std::partition_point(first, target.regions.end(), [&](const Region& region) {
      return region.target_offset + target_span(region) < begin;
    });
  }
  std::vector<Region> result;
  for (; first != target.regions.end() && first->target_offset < end; ++first) {
    for (Region& piece : clip(*first, target.size_bytes, begin, end)) {
      result.push_back(normalized(std::move(piece)));
    }
  }
  return result;
}

}  // namespace weightloom
