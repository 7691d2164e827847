// A program as text: stable, for reading, golden files and fingerprints.
#pragma once

#include <string>

#include "weightloom/base/export.h"
#include "weightloom/plan/program.h"

namespace weightloom WEIGHTLOOM_EXPORT {

/// One line per source and per region, in program order:
///   source 0 'model.norm.weight' BF16 [64] file 0 'model.safetensors' [1032, 1160)
///   target 'model.norm.weight' BF16 [64]
///     0<-s0+0 (128:1<-1)
/// A region that casts ends in the dtype that it casts from:
///     0<-s1+0 (64:2<-4) cast F32
/// Paths, times and sizes of files are left out: equal conversions of equal headers give equal
/// text.
std::string dump(const CopyProgram& program);

}  // namespace weightloom
