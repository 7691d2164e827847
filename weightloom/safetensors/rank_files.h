// Names in a sharded folder: one file of tensors for each rank of a parallel program, so that a
// tensor's name stands in several files.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "weightloom/base/export.h"

namespace weightloom WEIGHTLOOM_EXPORT {

/// The manifest that says how the ranks' tensors make up whole ones (sharding/layout_manifest.h).
inline constexpr std::string_view kManifestName = "layout.json";
/// The key of a header's metadata that says the same in files that PyTorch's distributed
/// checkpoints write (HuggingFaceStorageWriter).
inline constexpr std::string_view kDcpShardingKey = "DCP_SHARDING_INFO";

/// `rank-00003-of-00008.safetensors`: ranks count from 0.
std::string rank_file_name(int64_t rank, int64_t ranks);
/// The rank in a name that rank_file_name gives for so many ranks; nothing for another name.
std::optional<int64_t> rank_of_file(std::string_view name, int64_t ranks);

/// True for `shard-00001-model-00001-of-00001.safetensors`, as PyTorch's distributed checkpoints
/// call what each rank writes.
bool is_dcp_shard_name(std::string_view name);

}  // namespace weightloom
