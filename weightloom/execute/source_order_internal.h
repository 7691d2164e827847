// The order in which reading goes forward through the source files.
#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "weightloom/plan/program.h"
#include "weightloom/plan/schedule.h"

namespace weightloom {

/// A file, and an offset in it.
using FilePlace = std::pair<int32_t, int64_t>;

/// Where the first byte of a piece lies in the source files; before all files if it is a pad.
FilePlace first_source(const CopyProgram& program, const Piece& piece);
/// Tiles by the first source of their first piece.
void sort_by_source(const CopyProgram& program, std::vector<Tile>& tiles);
/// The targets that have bytes, by their first source.
std::vector<size_t> targets_by_source(const CopyProgram& program);

}  // namespace weightloom
