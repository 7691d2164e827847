#include "weightloom/sharding/local_parts.h"

namespace weightloom {

/// Of the shape and the number of steps: shardings of one model's tensors of one shape differ
/// little.
size_t LocalParts::Hash::operator()(const Question& question) const noexcept {
  uint64_t hash = question.sharding->steps.size();
  for (const int64_t size : *question.shape) {
    hash = (hash ^ static_cast<uint64_t>(size)) * 0x9e3779b97f4a7c15;
    hash ^= hash >> 29;
  }
  return static_cast<size_t>(hash);
}

const std::optional<LocalPart>& LocalParts::of(const Sharding& sharding, const Shape& shape) {
  const Question question{&sharding, &shape};
  const auto known = known_.find(question);
  if (known != known_.end()) return known->second;
  return known_.emplace(question, local_part(sharding, meshes_, shape, rank_)).first->second;
}

}  // namespace weightloom
