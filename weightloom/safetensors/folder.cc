#include <algorithm>
#include <array>
#include <charconv>
#include <map>
#include <optional>
#include <set>

#include <fmt/format.h>

#include "weightloom/base/quote.h"
#include "weightloom/safetensors/folder_internal.h"
#include "weightloom/safetensors/rank_files.h"

namespace weightloom {
namespace {

constexpr std::string_view kSuffix = ".safetensors";
constexpr std::string_view kWholeName = "model.safetensors";
constexpr std::string_view kIndexName = "model.safetensors.index.json";

/// A file of a numbered set: PREFIX-NNNNN-of-NNNNN.safetensors.
struct NumberedName {
  std::string prefix;
  int number = 0;
  int count = 0;
};

std::optional<int> five_digits(std::string_view text) {
  int value = 0;
  auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  bool whole = error == std::errc() && end == text.data() + text.size() && text[0] != '-';
  return whole ? std::optional(value) : std::nullopt;
}

std::optional<NumberedName> parse_numbered(std::string_view name) {
  constexpr size_t kTail = std::string_view("-NNNNN-of-NNNNN.safetensors").size();
  if (name.size() < kTail || !is_safetensors_name(name)) return std::nullopt;
  auto tail = name.substr(name.size() - kTail);
  if (tail[0] != '-' || tail.substr(6, 4) != "-of-") return std::nullopt;
  auto number = five_digits(tail.substr(1, 5));
  auto count = five_digits(tail.substr(10, 5));
  if (!number || !count) return std::nullopt;
  return NumberedName{std::string(name.substr(0, name.size() - kTail)), *number, *count};
}

/// The files of a sharded folder; none if it is no such folder.
std::vector<std::string> rank_files(const std::vector<std::string>& names,
                                    const std::vector<std::string>& weights) {
  std::vector<std::string> files;
  const bool has_manifest = std::ranges::find(names, kManifestName) != names.end();
  std::ranges::copy_if(weights, std::back_inserter(files), [&](const std::string& name) {
    return has_manifest ? name.starts_with("rank-") : is_dcp_shard_name(name);
  });
  return files;
}

using SetKey = std::pair<std::string, int>;  // prefix, count
using NumberedSets = std::map<SetKey, std::set<int>>;

std::string shard_name(const SetKey& set, int number) {
  return fmt::format("{}-{:05d}-of-{:05d}.safetensors", set.first, number, set.second);
}

Finding error_finding(std::string code, std::string file, std::string message) {
  return {Severity::error, std::move(code), "", std::move(file), std::move(message)};
}

[[noreturn]] void refuse(const std::string& folder, std::string next_step,
                         std::vector<Finding> findings) {
  auto more = findings.size() == 1 ? "" : fmt::format(" (and {} more)", findings.size() - 1);
  auto message = fmt::format("{}: {}{}", folder, findings.front().message, more);
  throw Error(ErrorCode::checkpoint, message, std::move(next_step), std::move(findings));
}

/// Numbers count from 1, or from 0 as some tools do.
void check_complete(const std::string& folder, const SetKey& set, const std::set<int>& numbers) {
  int first = numbers.contains(0) ? 0 : 1;
  std::vector<Finding> findings;
  for (int number = first; number < first + set.second; ++number) {
    if (numbers.contains(number)) continue;
    auto name = shard_name(set, number);
    findings.push_back(error_finding(
        "shard_gap", name,
        fmt::format("{} is missing: the names say that there are {} shards, {} are there", name,
                    set.second, numbers.size())));
  }
  for (int number : numbers) {
    if (number < first + set.second) continue;
    auto name = shard_name(set, number);
    findings.push_back(
        error_finding("shard_gap", name,
                      fmt::format("{} is one too many: the names say that there are {} shards",
                                  name, set.second)));
  }
  if (findings.empty()) return;
  refuse(folder, "fetch the missing shards, or give the path of the one file to read",
         std::move(findings));
}

void check_one_set(const std::string& folder, const NumberedSets& sets) {
  if (sets.size() == 1) return;
  std::vector<Finding> findings;
  for (const auto& [set, numbers] : sets) {
    auto name = shard_name(set, *numbers.begin());
    findings.push_back(
        error_finding("two_shard_sets", name,
                      fmt::format("{} belongs to one of {} sets of shards, and no index says which "
                                  "one counts",
                                  name, sets.size())));
  }
  refuse(folder, "remove the set that is stale, or write an index that names the right one",
         std::move(findings));
}

/// The only numbered set, checked to be complete; nothing if there is none.
std::vector<std::string> numbered_set(const std::string& folder,
                                      const std::vector<std::string>& names) {
  NumberedSets sets;
  std::vector<std::string> files;
  for (const auto& name : names) {
    auto numbered = parse_numbered(name);
    if (!numbered) continue;
    sets[{numbered->prefix, numbered->count}].insert(numbered->number);
    files.push_back(name);
  }
  if (sets.empty()) return {};
  check_one_set(folder, sets);
  check_complete(folder, sets.begin()->first, sets.begin()->second);
  return files;
}

[[noreturn]] void refuse_several_indexes(const std::string& folder,
                                         const std::vector<std::string>& indexes) {
  std::vector<Finding> findings;
  for (const auto& name : indexes) {
    findings.push_back(error_finding("two_indexes", name,
                                     fmt::format("{} is one of {} indexes, none of them called {}",
                                                 name, indexes.size(), kIndexName)));
  }
  refuse(folder, "give the path of the index to use", std::move(findings));
}

[[noreturn]] void refuse_without_weights(const std::string& folder,
                                         const std::vector<std::string>& names) {
  auto pickle = std::find_if(names.begin(), names.end(), is_pickle_name);
  if (pickle != names.end()) throw refuse_pickle(folder, *pickle);
  throw Error(ErrorCode::not_found,
              fmt::format("{}: the folder holds no *.safetensors file{}", folder,
                          names.empty() ? "; it is empty"
                                        : fmt::format(" among its {} entries", names.size())),
              "give the folder that holds the weights, or one .safetensors file");
}

}  // namespace

bool is_safetensors_name(std::string_view name) noexcept { return name.ends_with(kSuffix); }

bool is_safetensors_index_name(std::string_view name) noexcept {
  return name.ends_with(".safetensors.index.json");
}

bool is_pickle_name(std::string_view name) noexcept {
  constexpr std::array<std::string_view, 5> kSuffixes = {".bin", ".pt", ".pth", ".ckpt",
                                                         ".bin.index.json"};
  return std::any_of(kSuffixes.begin(), kSuffixes.end(),
                     [&](std::string_view suffix) { return name.ends_with(suffix); });
}

Error refuse_pickle(std::string_view path, std::string_view example) {
  return Error(ErrorCode::unsupported,
               fmt::format("{}: the weights are pickled ({}); Weightloom reads no pickle, because "
                           "a pickle can run code",
                           path, quote(example)),
               "convert them first: load with Transformers and call "
               "save_pretrained(DIR, safe_serialization=True), or use safetensors.torch.save_file");
}

std::vector<std::string> numbered_like(const std::vector<std::string>& names,
                                       std::string_view like) {
  std::vector<std::string> members;
  const auto wanted = parse_numbered(like);
  if (!wanted) return members;
  std::copy_if(names.begin(), names.end(), std::back_inserter(members), [&](const auto& name) {
    const auto numbered = parse_numbered(name);
    return numbered && numbered->prefix == wanted->prefix && numbered->count == wanted->count;
  });
  return members;
}

FolderChoice choose_files(const std::string& folder, const std::vector<std::string>& names) {
  std::vector<std::string> indexes;
  std::vector<std::string> weights;
  std::copy_if(names.begin(), names.end(), std::back_inserter(indexes), is_safetensors_index_name);
  std::copy_if(names.begin(), names.end(), std::back_inserter(weights), is_safetensors_name);
  if (auto files = rank_files(names, weights); !files.empty()) {
    return {"", std::move(files), true};
  }
  if (std::binary_search(indexes.begin(), indexes.end(), kIndexName)) {
    return {std::string(kIndexName), {}, false};
  }
  if (indexes.size() > 1) refuse_several_indexes(folder, indexes);
  if (indexes.size() == 1) return {indexes.front(), {}, false};
  if (weights.empty()) refuse_without_weights(folder, names);
  if (std::binary_search(weights.begin(), weights.end(), kWholeName)) {
    return {"", {std::string(kWholeName)}, false};
  }
  auto set = numbered_set(folder, weights);
  return {"", set.empty() ? std::move(weights) : std::move(set), false};
}

}  // namespace weightloom
