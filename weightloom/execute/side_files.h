// What stands beside the tensors in an output folder: the source's config and tokenizer, and the
// destination's other files.
#pragma once

#include <set>
#include <string>
#include <vector>

#include "weightloom/base/syscalls.h"
#include "weightloom/safetensors/checkpoint.h"

namespace weightloom {

/// Names in the source's folder that go along: regular files at its top that are no weights, index
/// or record. None when the source is a single file.
std::vector<std::string> side_files_of(const Syscalls& calls, const Checkpoint& source);

/// Relative names of what a new checkpoint replaces in `folder`: its index and the shards it names,
/// a numbered set, model.safetensors, the record. Works on broken folders too.
std::set<std::string> replaced_files(const Syscalls& calls, const std::string& folder);

/// Copies a file and makes it durable.
void copy_file(const Syscalls& calls, const std::string& from, const std::string& to);

}  // namespace weightloom
