// Shards as PyTorch's distributed checkpoints write them in Hugging Face form: each file says in
// its metadata where in the whole tensor each of its tensors begins. Private to the library.
// Source: torch/distributed/checkpoint/hf_storage.py (2.13), metadata key DCP_SHARDING_INFO.
#pragma once

#include "weightloom/sharding/whole_tensors.h"

namespace weightloom {

/// The whole tensors of such shards: how large a tensor is follows from its parts. Parts at the
/// same offsets are replicas.
WholeTensors whole_of_dcp_shards(const Checkpoint& checkpoint);

}  // namespace weightloom
