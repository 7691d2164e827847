// What a conversion puts beside the tensor files in the folder it builds: side files, kept files of
// the destination, checksums, the record, the index.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "weightloom/base/error.h"
#include "weightloom/base/syscalls.h"
#include "weightloom/execute/work_folder_internal.h"
#include "weightloom/mapping/provenance.h"
#include "weightloom/plan/conversion.h"
#include "weightloom/safetensors/checkpoint.h"
#include "weightloom/safetensors/shard_layout.h"

namespace weightloom {

/// Borrows all it is made of.
struct OutputFolder {
  const Syscalls& calls;
  const Checkpoint& source;
  const Provenance& provenance;
  const ShardLayout& layout;
  const WorkFolder& work;
  ConfigChanges changes;                 // what config.json is to say
  std::optional<std::string> checksums;  // text of the checksum file, if there is to be one
  std::optional<std::string> manifest;   // text of layout.json, if the output is a sharded folder

  /// Writes all of it, the index last: that makes a folder a checkpoint. What an earlier run left
  /// there goes first.
  /// Errors: io, no_space.
  void write_beside_tensors() const;
  /// What of the source stays behind, as a report; nothing if the destination is the source.
  std::optional<Finding> not_copied() const;
};

/// Keeps what stands in the destination and is none of the checkpoint that is replaced, but for the
/// files of `layout` and those that are `written` beside them.
/// Errors: io, no_space.
void keep_other_files(const Syscalls& calls, const WorkFolder& work, const ShardLayout& layout,
                      const std::vector<std::string>& written);
/// Errors: checkpoint if the folder that was built would not read back as one.
void refuse_if_unreadable(const Syscalls& calls, const WorkFolder& work, int threads);

}  // namespace weightloom
