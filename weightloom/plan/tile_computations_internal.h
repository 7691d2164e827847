// What is computed for a tile: which boxes of which nodes, and how their inputs are made.
#pragma once

#include <cstdint>
#include <vector>

#include "weightloom/plan/program.h"
#include "weightloom/plan/schedule.h"

namespace weightloom {

/// What reading may use.
struct ReadLimits {
  int64_t staging_bytes = 0;  ///< of memory beside that which is made
  bool may_share = true;      ///< regions of long runs may take the same bytes
};

/// How regions of a target are made; their target sides count bytes of the memory that they are
/// made in. `owner` is the tile's target that all of it is for.
/// Errors: as read_tile.
TileReads read_regions(const CopyProgram& program, const ProgramTarget& target,
                       std::vector<Region> regions, int32_t owner, const ReadLimits& limits);

/// Gathers the regions of a tile that take what is computed, and decides which boxes are computed
/// at once: those that lie side by side, as far as memory goes; a region that takes more than that
/// is divided. Thread safety: none.
class Computations {
 public:
  /// `program` is borrowed.
  Computations(const CopyProgram& program, int64_t staging_bytes)
      : program_(program), staging_bytes_(staging_bytes) {}

  /// Errors: plan if one block takes more than the memory there is.
  void add(const Region& region, const RegionType& type, int32_t owner);
  /// Errors: as add, for what inputs are computed from.
  std::vector<Computation> take() &&;

 private:
  /// A region, and the values that are computed for it.
  struct Part {
    int32_t node = 0;
    int32_t result = 0;
    DType dtype = DType::F32;  // that the result is made in
    Box values;
    BoxedRegion taken;  // elements of the source, bytes of the tile
    int32_t owner = 0;
  };
  /// Parts that are computed at once.
  struct Cluster {
    Box values;
    std::vector<Part> parts;
  };

  const ProgramNode& node_of(const Part& part) const;
  bool fits(const Part& part, const Box& values) const;
  void add(Part part);
  std::vector<Part> halves_along(const Part& part, size_t axis) const;
  std::vector<Part> halves(const Part& part) const;
  std::vector<Cluster> clusters() const;
  bool joins(const Cluster& cluster, const Part& part) const;
  Computation computation_of(const Cluster& cluster) const;
  ComputedResult result_of(const Cluster& cluster, int32_t r) const;
  void place_inputs(Computation& computation) const;
  void place_results(const Cluster& cluster, Computation& computation) const;

  const CopyProgram& program_;
  int64_t staging_bytes_;
  std::vector<Part> parts_;
};

}  // namespace weightloom
