// Makes the index of a folder again from the headers of its files, where that can be done without
// guessing.
//
// Which files count: those that the index names, or, where they are numbered, their whole numbered
// set. When there is no index that can be read, or nothing that it names is there: the files that
// make the folder's checkpoint without an index (checkpoint.h). Where a name stands in two of them,
// the old index decides, if it names one of the two; else that is refused.
// Thread safety: pure but for reading and writing files.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "weightloom/base/error.h"
#include "weightloom/base/export.h"
#include "weightloom/base/syscalls.h"

namespace weightloom WEIGHTLOOM_EXPORT {

/// What a repair may do.
struct IndexRepairOptions {
  bool drop_missing = false;  ///< leave out names of the old index that no file holds
};

/// A new index, and how it differs from the old one.
struct IndexRepair {
  std::string folder;              ///< that it belongs to
  std::string name;                ///< of the index in the folder
  std::string text;                ///< the new one, whole
  bool replaces = false;           ///< an index of that name is there
  bool changes = false;            ///< false: the index that is there is right
  std::vector<std::string> files;  ///< that it names, sorted
  int64_t tensors = 0;             ///< that it names
  int64_t total_bytes = 0;         ///< of these tensors
  /// Reports, by code: added_entry, moved_entry, dropped_entry (only with drop_missing),
  /// wrong_total_size, malformed_index (rebuilt as if there were none), unindexed_tensor (a second
  /// copy that the old index does not assign), unused_file.
  std::vector<Finding> findings;
};

/// Reads the headers of a folder, on up to `threads` threads, and changes nothing. Keys of the old
/// index other than sizes and weight_map are kept.
/// Errors: not_found, permission, io; usage if `folder` is none; checkpoint and format with all
///         faults in findings(), by code: missing_shard, shard_gap, two_shard_sets, two_indexes,
///         malformed_header, duplicate_tensor, index_entry_without_tensor (unless drop_missing).
IndexRepair repair_index(const Syscalls& calls, const std::string& folder,
                         const IndexRepairOptions& options, int threads = 1);

/// Writes a repair that changes something. The index is the old one or the new one at any time,
/// durable when this returns; the old one is kept as NAME.bak.
/// Returns: the backup's name; "" where there was no index.
/// Errors: exists if there is a NAME.bak; permission, no_space, io. The index is then as it was.
std::string write_index(const Syscalls& calls, const IndexRepair& repair);

}  // namespace weightloom
