// Which tiles are read alike: those that differ by whole steps along their regions' outermost axes.
#pragma once

#include "weightloom/plan/program.h"
#include "weightloom/plan/schedule.h"

namespace weightloom {

/// True if `b` is `a` shifted: the same pieces of the same sizes, each in the same region as in
/// `a`, some whole steps of its outermost axis further on, by equally many bytes of the sources in
/// all of them. False where that is not plain to see.
/// Law: if true, read_tile counts the same for both.
bool is_shifted(const CopyProgram& program, const Tile& a, const Tile& b);

}  // namespace weightloom
