// The checksum file that stands beside a checkpoint: a digest per tensor.
//
//   {"format": "weightloom.checksums/1", "algorithm": "xxh3-128",
//    "tensors": {"a.weight": "1f3a…" (32 hexadecimal digits, as `xxhsum -H2` prints), …}}
//
// A digest is of the tensor's plain bytes in its file, so it tells a flipped bit, not an intent.
// Thread safety: values, pure functions but for reading files.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "weightloom/base/error.h"
#include "weightloom/base/export.h"
#include "weightloom/base/syscalls.h"
#include "weightloom/safetensors/checkpoint.h"

namespace weightloom WEIGHTLOOM_EXPORT {

/// Name of the file of digests in its folder.
inline constexpr std::string_view kChecksumsName = "weightloom.checksums.json";

/// Tensor → digest.
using Checksums = std::map<std::string, std::string, std::less<>>;

/// Stable: equal checksums give equal bytes.
std::string format_checksums(const Checksums& checksums);
/// Errors: format, naming `file` and the entry: another form or algorithm, a name twice, a digest
/// that is none.
Checksums parse_checksums(std::string_view json, std::string_view file);
/// Of the folder of a checkpoint; nothing if there are none, or the checkpoint is a single file.
std::optional<Checksums> read_checksums(const Syscalls& calls, const Checkpoint& checkpoint);

/// What is wrong, as errors: checksum_mismatch with both digests, checksum_missing (a tensor
/// without an entry), checksum_unknown (an entry without a tensor). `found[i]` is of
/// checkpoint.tensors()[i].
std::vector<Finding> compare_checksums(const Checksums& wanted, const Checkpoint& checkpoint,
                                       const std::vector<std::string>& found);

}  // namespace weightloom
