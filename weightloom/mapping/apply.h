// Applies a mapping to named layouts: hub leaves in, runtime layouts out (or the reverse with a
// reversed mapping). A function Layout → Layout on any leaf: the leaves may be whole tensors,
// shards or inverses.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "weightloom/base/dtype.h"
#include "weightloom/base/error.h"
#include "weightloom/layout/layout.h"
#include "weightloom/mapping/mapping.h"
#include "weightloom/mapping/model_config.h"

namespace weightloom {

struct NamedLayout {
  std::string name;
  DType dtype = DType::F32;
  Layout layout;
};

struct MappingResult {
  std::vector<NamedLayout> tensors;  // sorted by name
  std::vector<Finding> findings;     // all of them; with errors, `tensors` is what could be made
  std::vector<int64_t> fired;        // per transform of the mapping: names it matched
  int64_t passed_through = 0;        // tensors whose name no transform matched
};

/// Errors found are findings, all at once: a converter with some of its sources absent (each
/// named), a gap in a numbered list, lists of unequal length, two tensors for one name, a rename
/// that rewrites a converter's product, dtypes that differ within one converter, a required
/// transform that matched nothing, an operation that refuses, a converter that fires on a tensor
/// with a companion (…_scale_inv and its like, named). Law: with the reversed mapping,
/// apply(reversed, apply(m, x)) gives x's names and identity layouts, for
///      mappings whose Concatenate parts are equal or sized.
MappingResult apply_mapping(const Mapping& mapping, std::vector<NamedLayout> leaves,
                            const ModelConfig& config);

/// Which side a set of names is on: how many names the mapping's source patterns match, and how
/// many its reverse's do.
struct SideEvidence {
  int64_t hub = 0;
  int64_t runtime = 0;
};
SideEvidence side_evidence(const Mapping& mapping, std::span<const std::string> names);

}  // namespace weightloom
