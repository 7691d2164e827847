#include "weightloom/sharding/spec_adapter.h"

#include <algorithm>
#include <ranges>
#include <utility>

#include <fmt/format.h>

#include "weightloom/base/error.h"
#include "weightloom/base/quote.h"
#include "weightloom/layout/operations.h"

namespace weightloom {
namespace {

[[noreturn]] void refuse(const LoadSpec& spec, const std::string& why) {
  throw Error(ErrorCode::usage, fmt::format("LoadSpec {}: {}", quote(spec.name()), why));
}

Layout adapted(const LoadSpec& spec, const std::vector<OperationPtr>& operations, Layout tensor,
               const ModelConfig& config) {
  OperationContext context;
  context.config = &config;
  context.target_patterns = {spec.name()};
  std::vector<Slot> slots(1);
  slots[0] = {{std::move(tensor)}, false, spec.name()};
  for (const OperationPtr& operation : operations) {
    try {
      slots = operation->apply(std::move(slots), context);
    } catch (const Error& error) {
      refuse(spec, fmt::format("adapter {}: {}", operation->name(), error.what()));
    }
  }
  if (slots.size() != 1 || slots[0].is_list || slots[0].items.size() != 1) {
    refuse(spec, "the adapter must give one tensor");
  }
  return std::move(slots[0].items[0]);
}

std::vector<OperationPtr> undoing(const LoadSpec& spec) {
  std::vector<OperationPtr> operations;
  for (const OperationPtr& operation : spec.adapter() | std::views::reverse) {
    operations.push_back(operation->reverse());
  }
  return operations;
}

bool pads_keys(const LoadSpec& spec) {
  if (spec.padding().scope != PadScope::per_key || !spec.is_fused()) return false;
  const auto dim = static_cast<size_t>(*spec.fused_dim());
  const Shape& padded = spec.global_shape();
  return dim < padded.size() && spec.unpadded_global_shape()[dim] != padded[dim];
}

/// Each key can be padded at its tail only if the adapter leaves its rows together.
void check_keys_apart(const LoadSpec& spec, std::span<const Layout> keys,
                      const ModelConfig& config) {
  std::vector<Layout> own;
  for (const Layout& key : keys) {
    own.push_back(identity(static_cast<SourceId>(own.size()), key.shape()));
  }
  const int dim = *spec.fused_dim();
  const Layout whole = adapted(spec, spec.adapter(), concat(own, dim), config);
  const int64_t rows = whole.shape().at(static_cast<size_t>(dim)) / std::ssize(keys);
  const std::vector<int64_t> sizes(keys.size(), rows);
  const std::vector<Layout> parts = split(whole, dim, sizes);
  for (size_t i = 0; i < parts.size(); ++i) {
    const bool is_own = std::ranges::all_of(parts[i].regions(), [i](const Region& region) {
      return region.source == static_cast<SourceId>(i);
    });
    if (is_own) continue;
    refuse(spec, fmt::format("padding of each key: the adapter does not leave key {} together in "
                             "{} rows of dim {}",
                             quote(spec.global_hf_keys()[i]), rows, dim));
  }
}

}  // namespace

Layout put_together(const LoadSpec& spec, std::span<const Layout> keys, const ModelConfig& config) {
  const Shape& wanted = spec.unpadded_global_shape();
  Layout whole = spec.is_fused() ? concat(keys, *spec.fused_dim()) : keys[0];
  whole = adapted(spec, spec.adapter(), std::move(whole), config);
  if (whole.shape() != wanted) {
    refuse(spec,
           fmt::format("{} keys of shape {} make a tensor {}, needed {}", keys.size(),
                       to_string(keys[0].shape()), to_string(whole.shape()), to_string(wanted)));
  }
  if (pads_keys(spec) && !spec.adapter().empty()) check_keys_apart(spec, keys, config);
  return whole;
}

std::vector<Layout> taken_apart(const LoadSpec& spec, const Layout& tensor, int64_t key_count,
                                const ModelConfig& config) {
  Layout whole = adapted(spec, undoing(spec), tensor, config);
  if (!spec.is_fused()) return {std::move(whole)};
  const int dim = *spec.fused_dim();
  if (dim < 0 || dim >= whole.rank() || whole.shape()[static_cast<size_t>(dim)] % key_count != 0) {
    refuse(spec, fmt::format("fused_dim {} of a tensor {} does not divide into {} keys", dim,
                             to_string(whole.shape()), key_count));
  }
  const std::vector<int64_t> sizes(static_cast<size_t>(key_count),
                                   whole.shape()[static_cast<size_t>(dim)] / key_count);
  return split(whole, dim, sizes);
}

Shape key_shape(const LoadSpec& spec, const ModelConfig& config) {
  const Layout whole = identity(0, spec.unpadded_global_shape());
  const auto keys = taken_apart(spec, whole, std::ssize(spec.global_hf_keys()), config);
  return keys.front().shape();
}

}  // namespace weightloom
