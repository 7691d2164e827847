#include <algorithm>
#include <optional>
#include <utility>

#include <fmt/format.h>

#include "weightloom/base/error.h"
#include "weightloom/base/file.h"
#include "weightloom/comm/state_files_internal.h"
#include "weightloom/safetensors/rank_files.h"

namespace weightloom {
namespace {

/// The tensors that a rank holds.
std::vector<TensorSpec> specs_of(const LayoutManifest& manifest, int64_t rank) {
  std::vector<TensorSpec> specs;
  for (const ShardedTensor& tensor : manifest.tensors) {
    const auto part = local_part(tensor.sharding, manifest.meshes, tensor.shape, rank);
    if (part) specs.push_back({tensor.name, tensor.dtype, local_shape(*part)});
  }
  return specs;
}

Finding fault(std::string code, const std::string& tensor, std::string message) {
  return {Severity::error, std::move(code), tensor, "", std::move(message)};
}

/// What is wrong with what a rank gives.
std::vector<Finding> faults_of(const std::vector<TensorSpec>& specs, const LocalBytes& local) {
  std::vector<Finding> faults;
  LocalBytes unknown = local;
  for (const TensorSpec& spec : specs) {
    const auto given = local.find(spec.name);
    unknown.erase(spec.name);
    const int64_t needed = checked_bytes(spec.dtype, spec.shape).value_or(-1);
    if (given == local.end()) {
      faults.push_back(fault("missing_part", spec.name,
                             fmt::format("tensor '{}': is not given, and this rank holds {} of it",
                                         spec.name, to_string(spec.shape))));
    } else if (std::ssize(given->second) != needed) {
      faults.push_back(fault(
          "part_mismatch", spec.name,
          fmt::format("tensor '{}': {} bytes are given, and {} {} needs {}", spec.name,
                      given->second.size(), to_string(spec.dtype), to_string(spec.shape), needed)));
    }
  }
  for (const auto& [name, bytes] : unknown) {
    faults.push_back(fault("unknown_part", name,
                           fmt::format("tensor '{}': this rank holds nothing of it", name)));
  }
  return faults;
}

void refuse_other_parts(const std::vector<TensorSpec>& specs, const LocalBytes& local) {
  const std::vector<Finding> faults = faults_of(specs, local);
  if (faults.empty()) return;
  throw Error(ErrorCode::usage,
              faults.size() == 1
                  ? faults.front().message
                  : fmt::format("{} (and {} more)", faults.front().message, faults.size() - 1),
              "give what the shardings say that this rank holds", faults);
}

/// Builds the folder.
class StateFolder {
 public:
  StateFolder(const LayoutManifest& manifest, const std::vector<SideText>& texts,
              const Syscalls& others)
      : manifest_(manifest), files_(others) {
    files_.add_text(path_of(std::string(kManifestName)), format_manifest(manifest));
    for (const auto& [name, text] : texts) files_.add_text(path_of(name), text);
  }

  /// `bytes_of(place in the manifest, name)` gives what stands here of a tensor, or nothing.
  template <typename BytesOf>
  void add_rank(int64_t rank, std::vector<TensorSpec> specs, const BytesOf& bytes_of) {
    const Header header = Header::lay_out(std::move(specs), {});
    std::vector<FilePart> parts = {{files_.keep(header.bytes())}};
    for (const HeaderTensor& tensor : header.tensors()) {
      const int64_t size = checked_bytes(tensor.dtype, tensor.shape).value_or(0);
      const std::span<const std::byte> bytes = bytes_of(tensor.name);
      parts.push_back({bytes, size - std::ssize(bytes)});
    }
    files_.add_with_holes(path_of(rank_file_name(rank, manifest_.meshes.size())), parts);
  }

  MemoryFiles files() && { return std::move(files_); }

 private:
  static std::string path_of(const std::string& name) {
    return join_path(std::string(kMemoryFolder), name);
  }

  const LayoutManifest& manifest_;
  MemoryFiles files_;
};

}  // namespace

Holders::Holders(const LayoutManifest& manifest) {
  std::vector<const Sharding*> kinds;
  for (const ShardedTensor& tensor : manifest.tensors) {
    auto kind = std::ranges::find_if(kinds, [&](const auto* k) { return *k == tensor.sharding; });
    kind_of_.push_back(static_cast<size_t>(kind - kinds.begin()));
    if (kind != kinds.end()) continue;
    kinds.push_back(&tensor.sharding);
    owners_.emplace_back();
    for (int64_t rank = 0; rank < manifest.meshes.size(); ++rank) {
      owners_.back().push_back(owner_of(tensor.sharding, manifest.meshes, rank));
    }
  }
}

MemoryFiles files_of_state(const LayoutManifest& manifest, const Holders& holders, int64_t rank,
                           const LocalBytes& local, const std::vector<SideText>& texts,
                           const Syscalls& others) {
  refuse_other_parts(specs_of(manifest, rank), local);
  std::map<std::string_view, size_t> places;
  for (size_t i = 0; i < manifest.tensors.size(); ++i) places[manifest.tensors[i].name] = i;
  StateFolder folder(manifest, texts, others);
  for (int64_t other = 0; other < manifest.meshes.size(); ++other) {
    folder.add_rank(other, specs_of(manifest, other), [&](const std::string& name) {
      const auto& owners = holders.owners_of(places.at(name));
      const bool is_here = owners[static_cast<size_t>(other)] == owners[static_cast<size_t>(rank)];
      return is_here ? local.find(name)->second : std::span<const std::byte>();
    });
  }
  return std::move(folder).files();
}

MemoryFiles outline_of_state(const LayoutManifest& manifest, const std::vector<SideText>& texts,
                             const Syscalls& others) {
  StateFolder folder(manifest, texts, others);
  for (int64_t rank = 0; rank < manifest.meshes.size(); ++rank) {
    folder.add_rank(rank, specs_of(manifest, rank),
                    [](const std::string&) { return std::span<const std::byte>(); });
  }
  return std::move(folder).files();
}

}  // namespace weightloom
