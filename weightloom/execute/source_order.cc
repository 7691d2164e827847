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

}  // namespace

FilePlace first_source(const CopyProgram& program, const Piece& piece) {
  const auto& target = program.targets()[static_cast<size_t>(piece.target)];
  for (const Region& region :
       clip_target(target, piece.begin_bytes, std::min(piece.begin_bytes + 1, piece.end_bytes))) {
    if (region.is_pad()) break;
    const auto& source = program.sources()[static_cast<size_t>(region.source)];
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
