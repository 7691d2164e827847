// The schedule: a program cut into tiles, the unit of work of the executor, and how each tile is
// read.
//
// Targets are placed in spaces (an output file, an arena, a caller's buffer). A tile is a byte
// range of one space, small where runs are long, as large as the budget allows where only a large
// tile reads its sources in one sweep (a transpose). The targets of a family are cut together: a
// tile holds the same fraction of each of them, a byte range of each one's space, so that what they
// all take from is read once. Costs come from the same functions that the executor runs.
// Thread safety: immutable values, pure functions.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "weightloom/base/export.h"
#include "weightloom/layout/source_box.h"
#include "weightloom/plan/program.h"

namespace weightloom WEIGHTLOOM_EXPORT {

/// Where a target lies.
struct Placement {
  int32_t space = 0;         ///< which one
  int64_t offset_bytes = 0;  ///< from the start of the space
};

/// Bytes [begin, end) of a target, at `at_bytes` from the start of the tile.
struct Piece {
  int32_t target = 0;       ///< into the program's targets
  int64_t begin_bytes = 0;  ///< in the target
  int64_t end_bytes = 0;    ///< in the target
  int64_t at_bytes = 0;     ///< in the tile
};

/// Bytes of a space that a tile makes, at `at_bytes` from the start of the tile.
struct TilePart {
  int32_t space = 0;        ///< which one
  int64_t begin_bytes = 0;  ///< in the space
  int64_t size_bytes = 0;   ///< of the range
  int64_t at_bytes = 0;     ///< in the tile
};

/// What is made at once: one byte range of one space or, of a family, a range of each member's.
struct Tile {
  std::vector<TilePart> parts;  ///< at least one, by at_bytes; the first is at 0
  int64_t size_bytes = 0;       ///< of the memory that it is made in, from 0 to the last part's end
  std::vector<Piece> pieces;    ///< by at_bytes; each in one part
  bool long_runs = true;        ///< reads exactly the bytes it makes, in long runs

  /// Bytes of targets that it makes.
  int64_t made_bytes() const noexcept;
};

/// How targets may be cut.
struct ScheduleLimits {
  /// Size of a tile whose runs are long.
  int64_t tile_bytes = int64_t{4} << 20;
  /// Most that one tile with its staging buffer may take; a contract. At least twice tile_bytes and
  /// 16 bytes, for one element on both sides of a cast.
  int64_t worker_bytes = int64_t{256} << 20;
  /// Members of a family are cut each by itself, for whoever takes targets one by one.
  bool families_apart = false;
};

/// The limits for `threads` workers that together stay under `memory_budget_bytes`.
/// Errors: usage if the budget is below 1 MiB a worker.
ScheduleLimits limits_for(int64_t memory_budget_bytes, int threads);

/// All targets cut into tiles, by space and offset; neighbours in a space share tiles. The tiles of
/// a family stand where its first member's would.
/// Law: every byte of every target lies in exactly one piece, and the pieces of a target follow one
/// another; a target that has casts is cut between elements, whatever its tiles' size and the pages
/// of its space. Where tiles have room for it, all parts of a tile lie in the pages of one buffer
/// as they lie in the pages of their spaces, if the first one does.
std::vector<Tile> make_schedule(const CopyProgram& program, std::span<const Placement> placements,
                                const ScheduleLimits& limits);

/// Calls `visit` for the tiles of make_schedule, in order, without keeping them: the tile given
/// lives until `visit` returns.
void for_each_tile(const CopyProgram& program, std::span<const Placement> placements,
                   const ScheduleLimits& limits, const std::function<void(const Tile&)>& visit);

/// One read of consecutive bytes of a file straight into the tile.
struct DirectRead {
  int32_t file = 0;         ///< into the program's files
  int64_t file_offset = 0;  ///< in the file
  int64_t tile_offset = 0;  ///< in the tile
  int64_t size_bytes = 0;   ///< of the read
};

/// Bytes of a file that go to the staging buffer.
struct StagingRead {
  int64_t file_offset = 0;     ///< in the file
  int64_t staging_offset = 0;  ///< in the staging buffer
  int64_t size_bytes = 0;      ///< of the read
};

/// A copy or cast from the staging buffer into the tile: the region's source side counts from the
/// start of the staging buffer.
struct StagedCopy {
  Region region;       ///< from the staging buffer into the tile
  RegionType type;     ///< of its elements
  int32_t target = 0;  ///< whose part it is
};

/// Neighbouring source bytes read into the staging buffer, and what is made of them.
struct StagedGroup {
  int32_t file = 0;                ///< into the program's files
  std::vector<StagingRead> reads;  ///< by file offset
  std::vector<StagedCopy> copies;  ///< from the staging buffer into the tile
  int64_t staging_bytes = 0;       ///< that the group needs
};

struct OperandReads;

/// A result of a computation, and where it goes.
struct ComputedResult {
  Box box;                   ///< of the result
  DType dtype = DType::F32;  ///< that it is made in
  int64_t at_bytes = 0;   ///< in the staging buffer, row-major; of a result in place: in the tile
  bool in_place = false;  ///< made where it goes, without copies
  int64_t row_bytes = 0;  ///< from one row of the box to the next
  std::vector<StagedCopy> copies;  ///< into the tile, in bytes; source sides count from at_bytes
};

/// A box of a node's values, computed in the staging buffer, and what is made of it.
struct Computation {
  int32_t node = 0;                     ///< into the program's nodes
  Box box;                              ///< of the values
  std::vector<OperandReads> inputs;     ///< what it takes
  std::vector<ComputedResult> results;  ///< all that the node has
  int32_t target = 0;                   ///< whose part is made, or one of those
  int64_t staging_bytes = 0;            ///< that the computation needs
};

/// How a tile, or an input of a computation, is made. Fills are pads: regions that write zeros.
struct TileReads {
  std::vector<DirectRead> direct;         ///< by file, then offset
  std::vector<StagedGroup> staged;        ///< one after another
  std::vector<Region> fills;              ///< in tile bytes
  std::vector<Computation> computations;  ///< one after another
  int64_t staging_bytes = 0;              ///< the largest of the groups and computations
  int64_t bytes_needed = 0;  ///< of the sources, counted for each target that takes them
  int64_t bytes_read = 0;    ///< by all of them
  int64_t read_calls = 0;    ///< runs of consecutive bytes
};

/// How the box of an input is made: a tile of its own, in the staging buffer.
struct OperandReads {
  Box box;                       ///< of the input
  int64_t at_bytes = 0;          ///< in the staging buffer, row-major
  int64_t size_bytes = 0;        ///< of the box
  int64_t staging_at_bytes = 0;  ///< where its own staging begins
  TileReads reads;               ///< into those bytes
};

/// Units: regions of the result count tile bytes on the target side.
/// Errors: plan if what a block takes to be computed is more than `limits` leave beside the tile.
TileReads read_tile(const CopyProgram& program, const Tile& tile, const ScheduleLimits& limits);

}  // namespace weightloom
