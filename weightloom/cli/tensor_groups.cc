#include "weightloom/cli/tensor_groups.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

namespace weightloom::cli {
namespace {

void append_type(std::string& key, DType dtype, const Shape& shape) {
  key += '\n';
  key += static_cast<char>(dtype);
  for (int64_t dim : shape) key.append(reinterpret_cast<const char*>(&dim), sizeof(dim));
}

}  // namespace

void TensorGroups::add(std::string_view name, DType dtype, const Shape& shape, int64_t bytes,
                       std::span<const std::string_view> sources) {
  name_ = number_name(name, std::move(name_));
  number_sources(sources);
  TensorGroup& group = group_of(dtype, shape);
  group.name.add(name_.numbers);
  group.bytes += bytes;
  std::span<const int64_t> numbers = source_numbers_;
  for (const size_t place : source_places_) {
    const size_t count = group.sources[place].places();
    group.sources[place].add(numbers.first(count));
    numbers = numbers.subspan(count);
  }
}

/// Each skeleton once; for each source which one it has, and its numbers.
void TensorGroups::number_sources(std::span<const std::string_view> sources) {
  source_skeletons_.clear();
  source_places_.clear();
  source_numbers_.clear();
  for (std::string_view source : sources) {
    source_ = number_name(source, std::move(source_));
    auto& known = source_skeletons_;
    const auto at = std::find(known.begin(), known.end(), source_.skeleton);
    source_places_.push_back(static_cast<size_t>(at - known.begin()));
    if (at == known.end()) known.push_back(source_.skeleton);
    source_numbers_.insert(source_numbers_.end(), source_.numbers.begin(), source_.numbers.end());
  }
}

/// The group of the name and sources just numbered, made if it is not there.
TensorGroup& TensorGroups::group_of(DType dtype, const Shape& shape) {
  key_ = name_.skeleton;
  for (const std::string& source : source_skeletons_) {
    key_ += '\n';
    key_ += source;
  }
  append_type(key_, dtype, shape);
  const auto [entry, is_new] = places_.try_emplace(key_, groups_.size());
  if (is_new) {
    groups_.push_back({FoldedName(name_.skeleton), dtype, shape, 0, {}});
    for (const auto& skeleton : source_skeletons_) groups_.back().sources.emplace_back(skeleton);
  }
  return groups_[entry->second];
}

std::string type_text(DType dtype, std::span<const int64_t> shape) {
  return fmt::format("{} {}", to_string(dtype), to_string(shape));
}

std::string times_text(int64_t count) { return count == 1 ? "" : fmt::format("×{}", count); }

}  // namespace weightloom::cli
