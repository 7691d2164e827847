// Who writes what of a save: the tiles of the whole output, divided among ranks.
//
// A tile whose sources some rank holds all of is that rank's, of several the one whose file it is
// of, or that has least to do; so replicas are written once, by ranks in turn. A tile that several
// ranks hold in long runs is cut between the runs; one of several large targets is first cut
// between these. What is left, tiles of short runs, is put
// together by one rank, to which the others send their parts: by one that holds most of it, as long
// as that keeps what ranks write about equal. All ranks compute the same division.
// Thread safety: values, pure functions.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "weightloom/plan/program.h"
#include "weightloom/plan/schedule.h"

namespace weightloom {

/// Runs of at least so many bytes are written each by its rank.
inline constexpr int64_t kLongRunBytes = int64_t{64} << 10;

/// Which ranks have the bytes of each source of a program.
struct SourceHolders {
  std::vector<std::vector<int64_t>> sets;  ///< of ranks, ascending, each once
  std::vector<int32_t> of_source;          ///< into sets
};

/// What another rank sends of a tile.
struct Portion {
  int64_t from = 0;
  int64_t bytes = 0;

  friend bool operator==(const Portion&, const Portion&) = default;
};

/// A tile that several ranks hold parts of, in short runs.
struct SharedTile {
  Tile tile;
  int64_t writer = 0;
  std::vector<Portion> portions;  // by rank; not the writer's own
};

/// A tile that one rank makes alone.
struct OwnTile {
  Tile tile;
  int64_t writer = 0;
};

struct SaveDivision {
  std::vector<OwnTile> own;
  std::vector<SharedTile> shared;
};

/// Of a space that is no rank's own.
inline constexpr int64_t kNoHome = -1;

/// `homes`: the rank that each space is of; empty: none is.
/// Law: each byte of each tile lies in exactly one tile of the division.
/// Precondition: tiles have one part each.
SaveDivision divide(const CopyProgram& program, std::span<const Tile> tiles,
                    const SourceHolders& holders, int64_t ranks,
                    std::span<const int64_t> homes = {});

/// The regions of a tile, in its bytes on the target side, piece by piece.
struct TileRegion {
  Region region;
  RegionType type;
  int32_t target = 0;  // into the program's targets

  /// Bytes that it makes.
  int64_t bytes() const noexcept { return volume(region) * type.target_bytes(); }
};
std::vector<TileRegion> regions_of(const CopyProgram& program, const Tile& tile);

/// Who gives a region of a shared tile that `writer` puts together.
int64_t giver_of(const Region& region, const SourceHolders& holders, int64_t writer);

/// Shared tiles [begin, end) of each batch in turn: what a rank sends and receives in one stays
/// within `budget_bytes`, unless one tile alone does not.
std::vector<std::pair<size_t, size_t>> batches_of(std::span<const SharedTile> tiles, int64_t ranks,
                                                  int64_t budget_bytes);

}  // namespace weightloom
