// For tests: random programs over random source files, seeded.
#pragma once

#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include "weightloom/plan/interpret.h"
#include "weightloom/plan/program.h"
#include "weightloom/plan/rank_programs.h"
#include "weightloom/plan/schedule.h"

namespace weightloom::testing {

/// The bytes of the source files, and a program that reads them (not each byte, some twice). About
/// one target in three has casts, and one in three is cut into a family.
struct RandomProgram {
  std::vector<Bytes> files;
  CopyProgram program;

  Bytes source_bytes(const ProgramSource& source) const;
  /// What the reference interpreter makes of it.
  std::vector<Bytes> expected() const;
};

/// `scale` bounds dims: small for many odd shapes, large for tiles. File i's path is `folder`/i.
RandomProgram random_program(uint64_t seed, int64_t scale, const std::string& folder);

/// The same with nodes: about half of the matrices that cast are decoded on the way, and about half
/// of what would be a target that casts is encoded, into codes and scales.
RandomProgram random_program_with_nodes(uint64_t seed, int64_t scale, const std::string& folder);

/// Cuts of a program's targets, padded and striped ones too, over a mesh of 2 to 8 ranks.
Spread random_spread(uint64_t seed, const CopyProgram& program);

/// Writes the source files and gives the program with their true status.
CopyProgram write_sources(const RandomProgram& random);

/// The targets of a program, one after another in one space.
inline std::vector<Placement> one_after_another(const CopyProgram& program) {
  std::vector<Placement> placements;
  int64_t end = 0;
  for (const ProgramTarget& target : program.targets()) {
    placements.push_back({0, end});
    end += target.size_bytes;
  }
  return placements;
}

}  // namespace weightloom::testing
