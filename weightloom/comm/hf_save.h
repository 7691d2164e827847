// A gathering save: tensors are put together bucket by bucket and written as a checkpoint, each key
// by one rank.
//
// This is the save of the specification. ParallelSave (parallel_save.h) makes the same files
// without gathering; this one serves tensors that LoadSpecs describe.
// Source: the specification "LoadSpec", sections 3.3 and 4.2. Thread safety: as the groups.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "weightloom/base/export.h"
#include "weightloom/base/syscalls.h"
#include "weightloom/comm/hf_unshard.h"
#include "weightloom/safetensors/header.h"
#include "weightloom/safetensors/memory_checkpoint.h"

namespace weightloom WEIGHTLOOM_EXPORT {

/// How a gathering save is cut; all ranks say the same.
struct HFSaveOptions {
  int64_t bucket_bytes = int64_t{1} << 30;   ///< gathered bytes at once
  int64_t slice_bytes = int64_t{64} << 20;   ///< of a tensor in one write; one row at least
  int64_t max_save_rank = kMaxSaveRank;      ///< so many ranks write, at most
  int64_t max_shard_bytes = 50'000'000'000;  ///< of the tensors of one file
  bool overwrite = false;                    ///< replace the checkpoint at the destination
  Metadata metadata{{"format", "pt"}};       ///< of the headers
  std::vector<SideText> texts{};             ///< beside the tensors: config.json, …
};

/// What a gathering save did.
struct HFSaveReport {
  std::vector<std::string> files;   ///< of tensors, in order
  int64_t targets = 0;              ///< tensors of the checkpoint
  int64_t target_bytes = 0;         ///< of these tensors
  int64_t bytes_written = 0;        ///< of these, by this rank
  std::vector<Finding> findings{};  ///< on rank 0: a work folder that is left
};

/// Writes the folder `destination`: a collective call of all ranks, which give the same tensors, in
/// one order. Fused keys are written by save_rank_count() ranks (save_key_range); a single key by
/// the one with the fewest bytes as yet. Each writer has files of its own; names are
/// model-00001-of-0000N. In memory at once, beyond the items: a bucket as unshard_tensors says, and
/// one slice.
/// Errors, on all ranks: usage if a plan keeps shards or takes a part of the keys, or a key comes
/// twice; plan if ranks give other tensors; exists, permission, not_found, no_space, io; as
/// unshard_tensors. After any of them the destination is as it was.
HFSaveReport save_hf_tensors(GroupCache& groups, std::span<const HFSaveItem> items,
                             const std::string& destination, const HFSaveOptions& options = {},
                             const Syscalls& calls = system_calls());

}  // namespace weightloom
