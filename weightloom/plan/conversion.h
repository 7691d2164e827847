// From a checkpoint and a selection to a program: the whole front end in one call.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "weightloom/base/export.h"
#include "weightloom/mapping/provenance.h"
#include "weightloom/mapping/registry.h"
#include "weightloom/mapping/tied_weights.h"
#include "weightloom/plan/mapping_choice.h"
#include "weightloom/plan/program.h"
#include "weightloom/plan/rank_programs.h"
#include "weightloom/plan/selection.h"
#include "weightloom/safetensors/checkpoint.h"
#include "weightloom/sharding/layout_manifest.h"
#include "weightloom/sharding/whole_tensors.h"

namespace weightloom WEIGHTLOOM_EXPORT {

/// What a conversion makes untrue in config.json.
struct ConfigChanges {
  std::optional<DType> dtype;  ///< that the caller wants of castable dtypes
  bool dequantised = false;    ///< nothing is quantised any more
  /// JSON: the quantization_config of what was quantised; "" if nothing was.
  std::string quantisation;
  /// Modules of the source, and what they are called now, where lists of modules stay true of them.
  std::map<std::string, std::string> modules;
};

/// What a module of the source, or a part of the model that modules stand below, is called now.
std::string renamed_module(const ConfigChanges& changes, std::string_view module);

/// A conversion that has been planned: what to do, and what is wrong with it.
struct Conversion {
  CopyProgram program;            ///< of the selected targets, by name
  std::vector<Finding> findings;  ///< all: the checkpoint's, the mapping's, the compiler's
  std::string mapping;            ///< the label of MappingChoice
  Side from = Side::unknown;      ///< what the source holds
  Side to = Side::unknown;        ///< what the output holds
  int64_t passed_through = 0;     ///< tensors that keep their name because no rule matched
  int64_t renamed = 0;            ///< tensors whose name a --rename changed
  int64_t deselected = 0;         ///< targets that include and exclude left out
  /// Names of the model that stand for another target's tensor: the same memory, written once.
  std::vector<TiedName> tied;
  /// All pairs of patterns that config.json says are one tensor.
  std::vector<TiedPair> ties;
  /// Pairs that config.json says are one tensor, stored twice: the values tell
  /// (execute/tied_values.h).
  std::vector<TiedName> tied_but_stored;
  Metadata metadata;      ///< of the output's headers
  Provenance provenance;  ///< the record to write with the output
  /// The original files to reproduce, when the record tells them and nothing is deselected.
  std::vector<OriginalFile> original_files;
  /// Name and text of the original index, likewise.
  std::optional<std::pair<std::string, std::string>> original_index;
  ConfigChanges config;  ///< what config.json is to say, so that it is true of the output
  /// How the targets are spread over ranks, where a mesh was given; one sharding per target of the
  /// whole program.
  std::optional<Spread> spread;
  /// After for_ranks: per target of the program the rank that holds it; else empty.
  std::vector<int64_t> ranks;
  std::vector<int64_t> made_ranks;  ///< after for_ranks: the ranks asked for, ascending
  /// After for_ranks: what the sharded output holds.
  std::optional<LayoutManifest> manifest;
  /// Parts of a sharded source that are not read, because another rank's is the same: the values
  /// tell whether they are (execute/replicas.h).
  std::vector<Replica> replicas;
  /// What each tensor of the source is called in an output that holds exactly these, in the layout
  /// they are in: such an output keeps the source's files. Else empty.
  std::vector<std::string> kept_names;

  /// True if findings refuse the conversion.
  bool is_refused(bool lenient) const noexcept;
};

/// Compiles, on up to `threads` threads. What is wrong with the tensors stands in findings; what is
/// wrong with the request throws.
/// Errors: mapping, usage (the direction cannot be told: names --from), format.
Conversion plan_conversion(const Syscalls& calls, const Checkpoint& source,
                           const Selection& selection, const Registry& registry, int threads = 1);

/// The conversion of some of its targets: what was known of the whole output is not known of these.
/// Ties stay as they are. Precondition: one flag per target; not after for_ranks.
Conversion with_targets_kept(Conversion conversion, const std::vector<bool>& keep);

/// The conversion whose program makes what these ranks hold of the targets; without a spread, the
/// conversion as it is.
/// Errors: usage if a rank is not in the mesh.
Conversion for_ranks(Conversion conversion, std::span<const int64_t> ranks);
/// As for_ranks, of every rank.
Conversion for_all_ranks(Conversion conversion);

/// The Error that a refused conversion ends with: first finding, count of the others, next step.
Error refusal_of(const std::vector<Finding>& findings, bool lenient);

}  // namespace weightloom
