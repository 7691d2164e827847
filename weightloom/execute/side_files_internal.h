// What stands beside the tensors in an output folder: the source's config and tokenizer, and the
// destination's other files.
#pragma once

#include <optional>
#include <set>
#include <string>
#include <vector>

#include "weightloom/base/error.h"
#include "weightloom/base/syscalls.h"
#include "weightloom/safetensors/checkpoint.h"

namespace weightloom {

/// Names in the source's folder that go along: regular files at its top that are no weights (by
/// name, or because the source's tensors stand there), index or record. None when the source is a
/// single file.
std::vector<std::string> side_files_of(const Syscalls& calls, const Checkpoint& source);

/// Relative names of what a new checkpoint replaces in `folder`: its indexes and the shards they
/// name, model.safetensors, the record; without an index and model.safetensors the numbered set, or
/// else all weights, that make the folder's checkpoint. Works on broken folders too.
/// `stands_by_itself`: the new checkpoint has an index or is model.safetensors; else every file of
/// weights at the top goes, because a reader would take it for a part of the new one.
std::set<std::string> replaced_files(const Syscalls& calls, const std::string& folder,
                                     bool stands_by_itself);

/// What stands in folders below the source's and does not go along, as one report; folders whose
/// name begins with a dot are none of a checkpoint's.
std::optional<Finding> not_copied_from(const Syscalls& calls, const Checkpoint& source);

/// Copies a file and makes it durable.
void copy_file(const Syscalls& calls, const std::string& from, const std::string& to);

}  // namespace weightloom
