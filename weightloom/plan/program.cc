#include "weightloom/plan/program.h"

#include <algorithm>
#include <utility>

#include "weightloom/layout/factor_clip.h"

namespace weightloom {

CopyProgram::CopyProgram(std::vector<ProgramFile> files, std::vector<ProgramSource> sources,
                         std::vector<ProgramTarget> targets)
    : CopyProgram(std::make_shared<const Inputs>(Inputs{std::move(files), std::move(sources)}),
                  std::move(targets)) {}

CopyProgram::CopyProgram(std::shared_ptr<const Inputs> inputs, std::vector<ProgramTarget> targets)
    : inputs_(std::move(inputs)), targets_(std::move(targets)) {
  for (const ProgramTarget& target : targets_) {
    target_bytes_ += target.size_bytes;
    region_count_ += static_cast<int64_t>(target.regions.size());
  }
}

CopyProgram CopyProgram::with_targets(std::vector<ProgramTarget> targets) const {
  return CopyProgram(inputs_, std::move(targets));
}

RegionType CopyProgram::type_of(const ProgramTarget& target, const Region& region) const noexcept {
  if (!target.has_casts || region.is_pad()) return {};
  const DType from = inputs_->sources[static_cast<size_t>(region.source)].dtype;
  return from == target.dtype ? RegionType{} : RegionType{from, target.dtype};
}

bool hulls_are_disjoint(std::span<const Region> regions) noexcept {
  for (size_t i = 1; i < regions.size(); ++i) {
    const Region& before = regions[i - 1];
    if (before.target_offset + target_span(before) >= regions[i].target_offset) return false;
  }
  return true;
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
