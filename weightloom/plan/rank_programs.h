// What each rank of a parallel program makes: a program of whole tensors, cut.
//
// One compiled program of whole tensors serves all ranks: a rank's program is a part of it, made
// when it is asked for, so planning for hundreds of ranks takes memory for one.
// Thread safety: values, pure functions.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "weightloom/base/error.h"
#include "weightloom/base/export.h"
#include "weightloom/plan/program.h"
#include "weightloom/sharding/sharding.h"

namespace weightloom WEIGHTLOOM_EXPORT {

/// How the targets of a program are spread over ranks.
struct Spread {
  MeshSet meshes{};                   ///< that the ranks form
  std::vector<Sharding> shardings{};  ///< one per target
  /// The ranks hold parts of the targets, and others, of whom nothing is known, the rest.
  bool is_part = false;
};

/// The targets that some ranks hold.
struct RankPrograms {
  CopyProgram program;           ///< rank by rank; targets have the names of the whole ones
  std::vector<int64_t> ranks{};  ///< per target: whose it is
  std::vector<size_t> wholes{};  ///< per target: the whole target that it is a part of
};

/// What is wrong with a spread, for all ranks at once, before anything is read: placements that do
/// not fit a tensor (`bad_sharding`), parts that do not make up the whole (`bad_partition`), a cut
/// inside a byte (`inside_byte`). Each distinct shape with its sharding is proved once.
std::vector<Finding> check_spread(const CopyProgram& whole, const Spread& spread);

/// The programs of these ranks, one after another in their order.
/// Law: each target's bytes are those of its part of the whole target; pads are zero bytes.
/// Precondition: check_spread finds nothing.
RankPrograms program_of_ranks(const CopyProgram& whole, const Spread& spread,
                              std::span<const int64_t> ranks);

}  // namespace weightloom
