#include <algorithm>
#include <array>
#include <cctype>
#include <memory>
#include <optional>
#include <string_view>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "weightloom/base/file.h"
#include "weightloom/execute/checksums.h"
#include "weightloom/execute/side_files_internal.h"
#include "weightloom/mapping/provenance.h"
#include "weightloom/safetensors/rank_files.h"

namespace weightloom {
namespace {

constexpr std::string_view kIndexSuffix = ".safetensors.index.json";
constexpr std::string_view kWholeName = "model.safetensors";
constexpr std::array<std::string_view, 9> kWeightSuffixes = {
    ".safetensors", ".bin", ".pt", ".pth", ".ckpt", ".gguf", ".h5", ".msgpack", ".onnx"};

bool is_weights(std::string_view name) {
  return std::any_of(kWeightSuffixes.begin(), kWeightSuffixes.end(),
                     [&](std::string_view suffix) { return name.ends_with(suffix); });
}

bool is_side_file(std::string_view name) {
  return !is_weights(name) && !name.ends_with(kIndexSuffix) && !name.ends_with(".bin.index.json") &&
         name != kProvenanceName && name != kChecksumsName && name != kManifestName;
}

bool all_digits(std::string_view text) {
  return text.size() == 5 && std::all_of(text.begin(), text.end(),
                                         [](unsigned char c) { return std::isdigit(c) != 0; });
}

/// "….-NNNNN-of-NNNNN.safetensors".
bool is_numbered_shard(std::string_view name) {
  constexpr std::string_view kPattern = "-NNNNN-of-NNNNN.safetensors";
  if (name.size() <= kPattern.size() || !name.ends_with(".safetensors")) return false;
  const std::string_view tail = name.substr(name.size() - kPattern.size());
  return tail[0] == '-' && all_digits(tail.substr(1, 5)) && tail.substr(6, 4) == "-of-" &&
         all_digits(tail.substr(10, 5));
}

std::optional<Index> index_if_sound(const Syscalls& calls, const std::string& path) {
  try {
    return parse_index(read_whole_file(calls, path), path);
  } catch (const Error& error) {
    if (error.code() != ErrorCode::format) throw;
    return std::nullopt;  // the destination's old index may be anything
  }
}

/// The safetensors files at the top of a folder, by kind.
struct OldWeights {
  std::set<std::string> indexes;
  std::set<std::string> numbered;
  std::set<std::string> all;
};

OldWeights old_weights(const Syscalls& calls, const std::string& folder) {
  OldWeights old;
  for (const std::string& name : list_folder(calls, folder)) {
    if (name.ends_with(kIndexSuffix)) old.indexes.insert(name);
    if (is_numbered_shard(name)) old.numbered.insert(name);
    if (name.ends_with(".safetensors")) old.all.insert(name);
  }
  return old;
}

std::set<std::string> weights_of(const Checkpoint& source) {
  std::set<std::string> weights;
  for (const CheckpointFile& file : source.files()) weights.insert(file.name);
  return weights;
}

/// Adds the files below a folder, by their names relative to `root`; one that may not be read is
/// named itself.
void add_files_below(const Syscalls& calls, const std::string& root, const std::string& folder,
                     std::vector<std::string>& names) {
  std::vector<std::string> entries;
  try {
    entries = list_folder(calls, join_path(root, folder));
  } catch (const Error& error) {
    if (error.code() != ErrorCode::permission) throw;
    names.push_back(folder + "/");
  }
  for (const std::string& entry : entries) {
    const std::string name = join_path(folder, entry);
    const StatResult found = calls.lstat(join_path(root, name));
    if (found.error == 0 && found.status.kind == FileKind::folder) {
      add_files_below(calls, root, name, names);
    } else {
      names.push_back(name);
    }
  }
}

/// Only files are, and what links lead to files.
bool is_copied(const Syscalls& calls, const std::string& path) {
  const auto status = status_of(calls, path);
  return status && status->kind == FileKind::file;
}

}  // namespace

std::vector<std::string> side_files_of(const Syscalls& calls, const Checkpoint& source) {
  std::vector<std::string> names;
  if (source.is_single_file()) return names;
  const std::set<std::string> weights = weights_of(source);
  for (const std::string& name : list_folder(calls, source.folder())) {
    if (!is_side_file(name) || weights.contains(name)) continue;
    const auto status = status_of(calls, join_path(source.folder(), name));
    if (status && status->kind == FileKind::file) names.push_back(name);
  }
  return names;
}

std::optional<Finding> not_copied_from(const Syscalls& calls, const Checkpoint& source) {
  constexpr size_t kNamesShown = 5;
  if (source.is_single_file()) return std::nullopt;
  std::vector<std::string> names;
  for (const std::string& name : list_folder(calls, source.folder())) {
    const StatResult found = calls.lstat(join_path(source.folder(), name));
    const bool is_folder = found.error == 0 && found.status.kind == FileKind::folder;
    if (is_folder && !name.starts_with('.')) add_files_below(calls, source.folder(), name, names);
    if (!is_folder && !is_copied(calls, join_path(source.folder(), name))) names.push_back(name);
  }
  const std::set<std::string> weights = weights_of(source);
  std::erase_if(names, [&](const std::string& name) { return weights.contains(name); });
  if (names.empty()) return std::nullopt;
  const auto shown = std::span(names).first(std::min(names.size(), kNamesShown));
  return Finding{
      Severity::report, "not_copied", "", names.front(),
      fmt::format("{}: {} not copied (in folders below it, or no files): {}{}", source.folder(),
                  names.size() == 1 ? "1 entry is" : fmt::format("{} entries are", names.size()),
                  fmt::join(shown, ", "), names.size() > shown.size() ? ", …" : "")};
}

std::set<std::string> replaced_files(const Syscalls& calls, const std::string& folder,
                                     bool stands_by_itself) {
  std::set<std::string> replaced{std::string(kWholeName), std::string(kProvenanceName),
                                 std::string(kChecksumsName), std::string(kManifestName)};
  const OldWeights old = old_weights(calls, folder);
  for (const std::string& index : old.indexes) {
    replaced.insert(index);
    if (const auto sound = index_if_sound(calls, join_path(folder, index))) {
      for (const auto& [tensor, shard] : sound->weight_map) replaced.insert(shard);
    }
  }
  const bool unnamed = old.indexes.empty() && !old.all.contains(std::string(kWholeName));
  if (!stands_by_itself || (unnamed && old.numbered.empty())) {
    replaced.insert(old.all.begin(), old.all.end());
  } else if (unnamed) {
    replaced.insert(old.numbered.begin(), old.numbered.end());
  }
  return replaced;
}

void copy_file(const Syscalls& calls, const std::string& from, const std::string& to) {
  constexpr int64_t kChunkBytes = int64_t{1} << 20;
  const File source = File::open_read(calls, from);
  const File target = File::create(calls, to);
  const int64_t size = source.status().size_bytes;
  const auto chunk = std::make_unique_for_overwrite<std::byte[]>(kChunkBytes);
  for (int64_t at = 0; at < size; at += kChunkBytes) {
    const std::span part(chunk.get(), static_cast<size_t>(std::min(kChunkBytes, size - at)));
    source.read_at(part, at);
    target.write_at(part, at);
  }
  target.sync();
}

}  // namespace weightloom
