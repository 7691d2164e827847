// A spec's whole tensor from its keys and back: put together along fused_dim, then the adapter.
//
// An adapter is a chain of conversion operations on one tensor (a transpose, gate and up apart,
// experts flattened). It is layout like any other, so cuts act on what it gives, and a rank reads
// what its part comes from, not the whole of a packed tensor.
// Source: the specification "LoadSpec", section 4.1. Thread safety: pure functions.
#pragma once

#include <span>

#include "weightloom/base/export.h"
#include "weightloom/mapping/model_config.h"
#include "weightloom/sharding/load_spec.h"

namespace weightloom WEIGHTLOOM_EXPORT {

/// The tensor without padding, of its keys in the spec's order. `config`: of numbers that the
/// adapter's operations look up.
/// Shape: the spec's unpadded_global_shape.
/// Errors: usage, naming the spec and both shapes, if the keys do not make that shape, or the
/// adapter refuses them; if each key is padded and the adapter does not leave its rows together.
Layout put_together(const LoadSpec& spec, std::span<const Layout> keys,
                    const ModelConfig& config = {});
/// Its keys, of a tensor that holds `key_count` of them (all, or those of a part): the inverse.
/// Errors: usage, naming the spec, if the adapter cannot be undone or keys do not divide the dim.
std::vector<Layout> taken_apart(const LoadSpec& spec, const Layout& tensor, int64_t key_count,
                                const ModelConfig& config = {});
/// Shape of each key, as the checkpoint has it: what taken_apart gives.
/// Errors: as taken_apart.
Shape key_shape(const LoadSpec& spec, const ModelConfig& config = {});

}  // namespace weightloom
