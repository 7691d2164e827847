// What the caller asks of a conversion.
// Thread safety: values, pure functions.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "weightloom/base/dtype.h"
#include "weightloom/base/export.h"
#include "weightloom/mapping/quantised_targets.h"
#include "weightloom/plan/expected.h"
#include "weightloom/plan/renames.h"
#include "weightloom/sharding/load_spec.h"
#include "weightloom/sharding/placements.h"

namespace weightloom WEIGHTLOOM_EXPORT {

/// Which layout a checkpoint holds: as published (hub), or as a program wants it (runtime).
enum class Side { unknown, hub, runtime };
/// "unknown", "hub", "runtime".
std::string_view to_string(Side side) noexcept;

/// What the caller asks for. The default asks for the checkpoint as it is.
struct Selection {
  /// unknown: found out (record, else the side whose patterns match)
  Side from = Side::unknown;
  std::optional<Side> to;  ///< nothing: the layout stays
  /// auto, none, a name, a path that ends in .json, or a folder of such files, which go before the
  /// shipped ones
  std::string mapping = "auto";
  std::string architecture;          ///< the class that is to hold the model; "": config.json's
  std::vector<Rename> renames;       ///< run on the source's names, before the mapping
  std::vector<std::string> include;  ///< globs over target names; none: all
  std::vector<std::string> exclude;  ///< wins over include
  std::optional<Expected> expected;  ///< what the runtime has places for
  bool lenient = false;              ///< let pass source tensors that no target uses
  std::optional<DType> dtype;        ///< what targets of castable dtypes become; nothing: kept
  std::optional<MeshSet> meshes;  ///< the ranks that targets are spread over; nothing: not spread
  /// Of what no placement matches: the parallel plan of the model (auto), or a file's path.
  std::optional<std::string> tp_plan;
  std::vector<PlacementRule> placements;  ///< how; the first that matches a target's name wins
  /// The targets, made of tensors of the layout that `to` gives, and how each is spread: over
  /// `meshes`, or, where its shards are bound, what one rank holds. None: the layout's own tensors.
  std::vector<LoadSpec> load_specs;
  std::vector<std::string> keep_dtype;  ///< globs over target names that `dtype` does not touch
  /// Quantised tensors become values before any rule, of `dtype` or else of config.json's.
  bool dequantize = false;
  /// What targets are quantised to after all rules, but for those that keep_dtype names.
  std::optional<EncodeScheme> quantize;

  /// True if include or exclude may leave targets out.
  bool is_partial() const noexcept { return !include.empty() || !exclude.empty(); }
};

/// True if include and exclude let `name` pass.
bool is_selected(const Selection& selection, const std::string& name);

}  // namespace weightloom
