// The provenance record: `weightloom.json` in every folder that convert writes. It says how the
// folder came about, so that `--to hub` can go back to files identical to the original's.
//
// Thread safety: a value.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "weightloom/base/dtype.h"
#include "weightloom/base/export.h"
#include "weightloom/mapping/mapping.h"

namespace weightloom WEIGHTLOOM_EXPORT {

/// Name of the record in its folder.
inline constexpr std::string_view kProvenanceName = "weightloom.json";

/// A file of the original: its name and its header's JSON, verbatim.
struct OriginalFile {
  std::string name;         ///< in the original's folder
  std::string header_json;  ///< with its padding
};

/// A cast that changed tensors: those of castable dtypes, but for names that match a glob of
/// `keep`, got `dtype`.
struct CastRule {
  DType dtype = DType::F32;       ///< what it led to
  std::vector<std::string> keep;  ///< globs over names that it did not touch

  friend bool operator==(const CastRule&, const CastRule&) = default;
};

/// What the rules that ask for the model's names (runtime_names.h) knew when tensors were brought
/// to the runtime layout: its names are those of the tensors, but for some.
struct ModelNames {
  std::string base_model_prefix;     ///< of the class; "" if it has none
  std::vector<std::string> unknown;  ///< names of tensors that the model does not have
  int64_t edited = 0;                ///< names that these rules changed, or kept from renamings

  friend bool operator==(const ModelNames&, const ModelNames&) = default;
};

/// `{"format": "weightloom.provenance/1", "layout": "runtime", "mapping": {…}, "mapping_hash": …,
///   "config": "text", "fired": [places], "model_names": {…}, "files": [{"name": …,
///   "header": "text"}], "index": {"name": …, "text": "text"}, "casts": [{"dtype": "BF16",
///   "keep_dtype": [globs]}], "decoded": [names]}`;
/// the texts of files stand there whole, as strings.
struct Provenance {
  std::string layout;          ///< "hub", "runtime" or "unknown": what this folder holds
  Mapping mapping;             ///< whole, so that a later release with other rules still goes back
  std::vector<int64_t> fired;  ///< transforms that fired, by place in the mapping
  std::string config_json;     ///< the config.json the mapping's operations were resolved with; ""
  /// Of the hub side, or of the layout that stays where the folder is a sharded one; empty if the
  /// way back is by rule.
  std::vector<OriginalFile> files;
  std::optional<std::pair<std::string, std::string>> index;  ///< name and text, verbatim
  std::vector<CastRule> casts;  ///< since the originals, in order; globs over this layout's names
  std::optional<ModelNames> model_names{};  ///< nothing: no rule asked for the model's names
  std::vector<std::string>
      decoded{};  ///< names, as the hub has them, of tensors that were quantised there
};

/// Errors: format, naming `file`; also if the mapping does not have the hash the record states, or
/// the name of an original file could lead out of a folder.
Provenance parse_provenance(std::string_view json, std::string_view file,
                            const OperationMakers& operations = OperationMakers::built_in());
/// Stable: equal records give equal bytes.
std::string format_provenance(const Provenance& provenance);

}  // namespace weightloom
