#include "weightloom/plan/program.h"

#include <algorithm>
#include <utility>

#include "weightloom/layout/factor_clip.h"
#include "weightloom/plan/node_boxes_internal.h"

namespace weightloom {

CopyProgram::CopyProgram(std::vector<ProgramFile> files, std::vector<ProgramSource> sources,
                         std::vector<ProgramTarget> targets, std::vector<ProgramNode> nodes)
    : targets_(std::move(targets)) {
  const auto inputs =
      std::make_shared<Inputs>(Inputs{std::move(files), std::move(sources), std::move(nodes)});
  inputs_ = inputs;
  for (ProgramNode& node : inputs->nodes) {
    for (ProgramTarget& input : node.inputs) note_nodes(input);
  }
  note_targets();
}

CopyProgram::CopyProgram(std::shared_ptr<const Inputs> inputs, std::vector<ProgramTarget> targets)
    : inputs_(std::move(inputs)), targets_(std::move(targets)) {
  note_targets();
}

void CopyProgram::note_targets() {
  for (ProgramTarget& target : targets_) {
    if (!inputs_->nodes.empty()) note_nodes(target);
    target_bytes_ += target.size_bytes;
    region_count_ += static_cast<int64_t>(target.regions.size());
  }
}

CopyProgram CopyProgram::with_targets(std::vector<ProgramTarget> targets) const {
  return CopyProgram(inputs_, std::move(targets));
}

void CopyProgram::note_nodes(ProgramTarget& target) const {
  target.is_computed = false;
  for (const Region& region : target.regions) {
    if (region.is_pad() || !source_of(region).is_computed()) continue;
    target.is_computed = target.has_casts = true;
    target.block_rows = std::max(target.block_rows, rows_of_block(*this, region));
  }
  target.needed_bytes = target.is_computed ? weightloom::needed_bytes(*this, target) : 0;
}

RegionType CopyProgram::type_of(const ProgramTarget& target, const Region& region) const noexcept {
  if (!target.has_casts || region.is_pad()) return {};
  const DType from = source_of(region).dtype;
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
