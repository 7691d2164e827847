// Applies a mapping to named layouts: hub leaves in, runtime layouts out (or the reverse with a
// reversed mapping). A function Layout → Layout on any leaf: the leaves may be whole tensors,
// shards or inverses.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "weightloom/base/dtype.h"
#include "weightloom/base/error.h"
#include "weightloom/base/export.h"
#include "weightloom/layout/layout.h"
#include "weightloom/mapping/mapping.h"
#include "weightloom/mapping/model_config.h"
#include "weightloom/mapping/runtime_names.h"

namespace weightloom WEIGHTLOOM_EXPORT {

/// A tensor by name, and where its elements come from.
struct NamedLayout {
  std::string name;          ///< whole
  DType dtype = DType::F32;  ///< of each element
  Layout layout;             ///< over the leaves' sources
};

/// What a mapping makes of named layouts.
struct MappingResult {
  std::vector<NamedLayout> tensors;  ///< sorted by name
  std::vector<Finding> findings;     ///< all of them; with errors, `tensors` is what could be made
  std::vector<int64_t> fired;        ///< per transform of the mapping: names it matched
  int64_t passed_through = 0;        ///< tensors whose name no transform matched
  int64_t edited = 0;                ///< names that the rules of runtime_names.h acted on
};

/// How a mapping is applied.
struct ApplyOptions {
  int threads = 1;  ///< names are matched on up to so many; the result does not depend on it
  bool mixed_floats =
      false;               ///< castable dtypes may differ in one converter: the caller casts them
  RuntimeNames runtime{};  ///< of the model, for mappings from hub to runtime
};

/// What is wrong is found all at once. Names in findings are the leaves' own; the codes:
///   missing_source           a converter with some of its sources absent, each named
///   index_gap, bad_index     a numbered list with a hole; what stands for an index is none
///   count_mismatch           a list of another length than config.json says
///   duplicate_target         two tensors for one name or place
///   dtype_mismatch           dtypes that differ within one converter; with `mixed_floats` only
///                            where one is an integer or under 16 bits: the caller casts the others
///   shape_mismatch, operation_refused, unsupported, target_count    what the operations refuse
///   companion_refused        a converter would take a tensor without its companion (…_scale_inv
///                            and its like), or the companion stands without its tensor
///   rename_rewrites_product  a renaming matches what a converter made
///   required_unmatched       a required transform matched nothing
/// Law:    apply(reversed, apply(m, x)) gives x's names and identity layouts, for mappings whose
///         Concatenate parts are equal or sized.
/// Errors: mapping if a pattern is too costly to search in a name.
MappingResult apply_mapping(const Mapping& mapping, std::vector<NamedLayout> leaves,
                            const ModelConfig& config, const ApplyOptions& options = {});

}  // namespace weightloom
