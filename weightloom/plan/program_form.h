// The form of a program: what its schedule and its cost depend on, and nothing else.
//
// Of where sources stand, tiles and their reads see only which bytes touch and how far touching
// ones are apart. So ranks that hold equal parts of other rows, and layers that are alike, make
// programs of one form: whoever counts what one of them costs has counted it for all.
// Thread safety: values, pure functions.
#pragma once

#include <array>
#include <compare>
#include <cstdint>
#include <span>

#include "weightloom/base/export.h"
#include "weightloom/plan/program.h"
#include "weightloom/plan/schedule.h"

namespace weightloom WEIGHTLOOM_EXPORT {

/// A digest of 128 bits; two forms that differ have one digest by a chance that never comes.
struct ProgramForm {
  std::array<uint64_t, 2> digest{};  ///< XXH3 of all that the form holds

  friend auto operator<=>(const ProgramForm&, const ProgramForm&) = default;
};

/// The form of a program whose targets lie at `placements`. Names, files and pads' values are not
/// in it. Regions whose hulls touch in a file are one cluster, and a region's source is its
/// cluster, numbered as the regions come, and its distance from the cluster's begin. Of a computed
/// source it is the place in its values, and once for each node all that the node takes.
/// Law: programs of one form have equal tiles, and each tile's counts are equal; the parts that
///      equal placements cut out of targets of one form are of one form too.
ProgramForm form_of(const CopyProgram& program, std::span<const Placement> placements);

}  // namespace weightloom
