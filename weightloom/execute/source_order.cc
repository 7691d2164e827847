#include <algorithm>
#include <span>

#include "weightloom/execute/source_order_internal.h"

namespace weightloom {
namespace {

/// Sorted by place; equal ones in the order they were given.
std::vector<size_t> in_order(std::vector<std::pair<FilePlace, size_t>> places) {
  std::sort(places.begin(), places.end());
  std::vector<size_t> order;
  order.reserve(places.size());
  for (const auto& [place, i] : places) order.push_back(i);
  return order;
}

/// Of a target that is computed: where the first input of the region at `begin` starts.
FilePlace first_input(const CopyProgram& program, const ProgramTarget& target, int64_t begin) {
  for (const Region& region : target.regions) {
    if (region.is_pad() || region.target_offset + target_span(region) < begin) continue;
    const ProgramSource& source = program.source_of(region);
    if (!source.is_computed()) return {source.file, source.offset_bytes + region.source_offset};
    const ProgramNode& node = program.nodes()[static_cast<size_t>(source.node)];
    const FilePlace input = first_input(program, node.inputs.front(), 0);
    return {input.first, input.second + region.source_offset};
  }
  return {-1, 0};
}

}  // namespace

FilePlace first_source(const CopyProgram& program, const Piece& piece) {
  const auto& target = program.targets()[static_cast<size_t>(piece.target)];
  if (target.is_computed) return first_input(program, target, piece.begin_bytes);
  for (const Region& region :
       clip_target(target, piece.begin_bytes, std::min(piece.begin_bytes + 1, piece.end_bytes))) {
    if (region.is_pad()) break;
    const ProgramSource& source = program.source_of(region);
    return {source.file, source.offset_bytes + region.source_offset};
  }
  return {-1, 0};
}

void sort_by_source(const CopyProgram& program, std::vector<Tile>& tiles) {
  std::vector<std::pair<FilePlace, size_t>> places;
  places.reserve(tiles.size());
  for (const Tile& tile : tiles) {
    places.emplace_back(first_source(program, tile.pieces.front()), places.size());
  }
  std::vector<Tile> sorted;
  sorted.reserve(tiles.size());
  for (const size_t i : in_order(std::move(places))) sorted.push_back(std::move(tiles[i]));
  tiles = std::move(sorted);
}

std::vector<size_t> targets_by_source(const CopyProgram& program) {
  std::vector<std::pair<FilePlace, size_t>> places;
  const auto targets = program.targets();
  for (size_t i = 0; i < targets.size(); ++i) {
    if (targets[i].size_bytes == 0) continue;
    const Piece whole{static_cast<int32_t>(i), 0, targets[i].size_bytes, 0};
    places.emplace_back(first_source(program, whole), i);
  }
  return in_order(std::move(places));
}

}  // namespace weightloom
