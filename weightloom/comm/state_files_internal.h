// The sharded state that ranks hold together, as each of them sees it: a sharded folder in memory.
// What this rank does not hold is a hole.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "weightloom/base/memory_files.h"
#include "weightloom/safetensors/memory_checkpoint.h"
#include "weightloom/sharding/layout_manifest.h"

namespace weightloom {

/// Tensors of a rank: name → bytes.
using LocalBytes = std::map<std::string, std::span<const std::byte>, std::less<>>;

/// For each sharding that the tensors have, who holds what.
class Holders {
 public:
  /// Borrows the manifest.
  explicit Holders(const LayoutManifest& manifest);

  /// Per rank, the first that holds what it holds of tensor `i` of the manifest.
  const std::vector<int64_t>& owners_of(size_t i) const { return owners_[kind_of_[i]]; }

 private:
  std::vector<std::vector<int64_t>> owners_;  // by kind
  std::vector<size_t> kind_of_;               // of each tensor
};

/// Files of all ranks and the manifest, in kMemoryFolder, beside the files of `others`. Those
/// tensors of any rank have bytes that `rank` holds the same of. Borrows the bytes.
/// Errors: usage, as findings, if `local` are not exactly the tensors of this rank with their sizes.
MemoryFiles files_of_state(const LayoutManifest& manifest, const Holders& holders, int64_t rank,
                           const LocalBytes& local, const std::vector<SideText>& texts,
                           const Syscalls& others);

/// As files_of_state, with holes for all tensors: enough to plan with.
MemoryFiles outline_of_state(const LayoutManifest& manifest, const std::vector<SideText>& texts,
                             const Syscalls& others);

}  // namespace weightloom
