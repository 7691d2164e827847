#include "weightloom/cli/tensor_groups.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

namespace weightloom::cli {
namespace {

/// Sources by skeleton: each skeleton once, with the numbers of all names that have it.
struct NumberedSources {
  std::vector<std::string> skeletons;
  std::vector<std::pair<size_t, std::vector<int64_t>>> numbers;  // place in skeletons, numbers
};

NumberedSources number_sources(std::span<const std::string_view> sources) {
  NumberedSources result;
  for (std::string_view source : sources) {
    NumberedName name = number_name(source);
    auto& known = result.skeletons;
    const auto at = std::find(known.begin(), known.end(), name.skeleton);
    const auto place = static_cast<size_t>(at - known.begin());
    if (at == known.end()) known.push_back(std::move(name.skeleton));
    result.numbers.emplace_back(place, std::move(name.numbers));
  }
  return result;
}

std::string key_of(const std::string& skeleton, DType dtype, const Shape& shape,
                   const NumberedSources& sources) {
  std::string key = skeleton;
  for (const std::string& source : sources.skeletons) {
    key += '\n';
    key += source;
  }
  key += '\n';
  key += static_cast<char>(dtype);
  for (int64_t dim : shape) key.append(reinterpret_cast<const char*>(&dim), sizeof(dim));
  return key;
}

}  // namespace

void TensorGroups::add(std::string_view name, DType dtype, const Shape& shape, int64_t bytes,
                       std::span<const std::string_view> sources) {
  NumberedName numbered = number_name(name);
  const NumberedSources from = number_sources(sources);
  const auto [entry, is_new] =
      places_.try_emplace(key_of(numbered.skeleton, dtype, shape, from), groups_.size());
  if (is_new) {
    groups_.push_back({FoldedName(std::move(numbered.skeleton)), dtype, shape, 0, {}});
    for (const auto& skeleton : from.skeletons) groups_.back().sources.emplace_back(skeleton);
  }
  TensorGroup& group = groups_[entry->second];
  group.name.add(numbered.numbers);
  group.bytes += bytes;
  for (const auto& [place, numbers] : from.numbers) group.sources[place].add(numbers);
}

std::string type_text(DType dtype, std::span<const int64_t> shape) {
  return fmt::format("{} {}", to_string(dtype), to_string(shape));
}

std::string times_text(int64_t count) { return count == 1 ? "" : fmt::format("×{}", count); }

}  // namespace weightloom::cli
