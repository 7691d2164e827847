#include "weightloom/sharding/whole_tensors.h"

#include <algorithm>
#include <map>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "weightloom/base/file.h"
#include "weightloom/layout/operations.h"
#include "weightloom/safetensors/rank_files.h"
#include "weightloom/sharding/dcp_shards_internal.h"

namespace weightloom {
namespace {

constexpr SourceId kAbsent = -1;

/// Puts the tensors of a manifest together from the parts in rank files.
class Assembly {
 public:
  Assembly(const Checkpoint& checkpoint, LayoutManifest manifest)
      : checkpoint_(checkpoint), manifest_(std::move(manifest)), ranks_(manifest_.meshes.size()) {
    find_ranks();
    find_parts();
  }

  WholeTensors assemble() && {
    for (const ShardedTensor& tensor : manifest_.tensors) add(tensor);
    refuse_unknown_parts();
    result_.manifest = std::move(manifest_);
    return std::move(result_);
  }

 private:
  using Parts = std::vector<SourceId>;  // by rank

  void report(std::string code, const std::string& tensor, const std::string& file,
              std::string message) {
    result_.findings.push_back(
        {Severity::error, std::move(code), tensor, file, std::move(message)});
  }

  void find_ranks() {
    std::vector<bool> is_there(static_cast<size_t>(ranks_), false);
    for (const CheckpointFile& file : checkpoint_.files()) {
      const auto rank = rank_of_file(file.name, ranks_);
      rank_of_file_.push_back(rank.value_or(-1));
      if (rank) {
        is_there[static_cast<size_t>(*rank)] = true;
      } else {
        report("unknown_part", "", file.name,
               fmt::format("{}: is no file of the {} ranks that {} names", file.name, ranks_,
                           kManifestName));
      }
    }
    for (int64_t rank = 0; rank < ranks_; ++rank) {
      if (is_there[static_cast<size_t>(rank)]) continue;
      const std::string name = rank_file_name(rank, ranks_);
      report("missing_rank", "", name,
             fmt::format("{}: the file of rank {} is missing: {} says that there are {} ranks",
                         name, rank, kManifestName, ranks_));
      is_incomplete_ = true;
    }
  }

  void find_parts() {
    const auto tensors = checkpoint_.tensors();
    for (size_t i = 0; i < tensors.size(); ++i) {
      const int64_t rank = rank_of_file_[static_cast<size_t>(tensors[i].file)];
      if (rank < 0) continue;
      Parts& parts = parts_[tensors[i].name];
      parts.resize(static_cast<size_t>(ranks_), kAbsent);
      parts[static_cast<size_t>(rank)] = static_cast<SourceId>(i);
    }
  }

  /// Which ranks hold which part is the same for all tensors of one sharding.
  const std::vector<int64_t>& owners_of(const Sharding& sharding) {
    for (const auto& [known, list] : owners_) {
      if (known == sharding) return list;
    }
    std::vector<int64_t> list;
    for (int64_t rank = 0; rank < ranks_; ++rank) {
      list.push_back(owner_of(sharding, manifest_.meshes, rank));
    }
    return owners_.emplace_back(sharding, std::move(list)).second;
  }

  void add(const ShardedTensor& tensor) {
    Parts parts(static_cast<size_t>(ranks_), kAbsent);
    if (const auto found = parts_.find(tensor.name); found != parts_.end()) {
      parts = std::move(found->second);
      parts_.erase(found);
    }
    try {
      if (!check_parts(tensor, parts)) return;
      result_.tensors.push_back({tensor.name, tensor.dtype,
                                 merged(tensor.sharding, manifest_.meshes, tensor.shape, parts)});
      note_replicas(tensor, parts);
    } catch (const Error& error) {
      report("bad_sharding", tensor.name, std::string(kManifestName),
             fmt::format("'{}': {}", tensor.name, error.what()));
    }
  }

  /// True if each rank has what it should have.
  bool check_parts(const ShardedTensor& tensor, const Parts& parts) {
    bool is_sound = true;
    for (int64_t rank = 0; rank < ranks_; ++rank) {
      const auto part = local_part(tensor.sharding, manifest_.meshes, tensor.shape, rank);
      is_sound = check_part(tensor, rank, part, parts[static_cast<size_t>(rank)]) && is_sound;
    }
    return is_sound;
  }

  bool check_part(const ShardedTensor& tensor, int64_t rank, const std::optional<LocalPart>& part,
                  SourceId stored) {
    const std::string file = rank_file_name(rank, ranks_);
    if (stored == kAbsent) {
      if (!part) return true;
      if (is_incomplete_) return false;  // the file is missing, which is told
      report("missing_part", tensor.name, file,
             fmt::format("{}: has no tensor '{}', of which rank {} holds {}", file, tensor.name,
                         rank, to_string(local_shape(*part))));
      return false;
    }
    const StoredTensor& found = checkpoint_.tensors()[static_cast<size_t>(stored)];
    if (!part) {
      report("unknown_part", tensor.name, file,
             fmt::format("{}: tensor '{}' {} belongs to another stage than rank {}'s", file,
                         tensor.name, to_string(found.shape), rank));
      return false;
    }
    const Shape wanted = local_shape(*part);
    if (found.shape == wanted && found.dtype == tensor.dtype) return true;
    report(
        "part_mismatch", tensor.name, file,
        fmt::format("{}: tensor '{}' is {} {}, but rank {} of {} holds {} {} of the whole {}", file,
                    tensor.name, to_string(found.dtype), to_string(found.shape), rank, ranks_,
                    to_string(tensor.dtype), to_string(wanted), to_string(tensor.shape)));
    return false;
  }

  void note_replicas(const ShardedTensor& tensor, const Parts& parts) {
    const std::vector<int64_t>& owners = owners_of(tensor.sharding);
    for (int64_t rank = 0; rank < ranks_; ++rank) {
      const SourceId copy = parts[static_cast<size_t>(rank)];
      const SourceId owner = parts[static_cast<size_t>(owners[static_cast<size_t>(rank)])];
      if (copy != owner && copy != kAbsent) result_.replicas.push_back({owner, copy});
    }
  }

  void refuse_unknown_parts() {
    for (const auto& [name, parts] : parts_) {
      report("unknown_part", name, std::string(kManifestName),
             fmt::format("tensor '{}' stands in rank files, but {} does not say how it is spread",
                         name, kManifestName));
    }
  }

  const Checkpoint& checkpoint_;
  LayoutManifest manifest_;
  const int64_t ranks_;
  bool is_incomplete_ = false;
  std::vector<int64_t> rank_of_file_;  // of the checkpoint's files; -1: none
  std::map<std::string, Parts> parts_;
  std::vector<std::pair<Sharding, std::vector<int64_t>>> owners_;
  WholeTensors result_;
};

WholeTensors as_they_are(const Checkpoint& checkpoint) {
  WholeTensors whole;
  whole.tensors.reserve(checkpoint.tensors().size());
  SourceId id = 0;
  for (const StoredTensor& tensor : checkpoint.tensors()) {
    whole.tensors.push_back({tensor.name, tensor.dtype, identity(id++, tensor.shape)});
  }
  return whole;
}

}  // namespace

WholeTensors whole_tensors(const Syscalls& calls, const Checkpoint& checkpoint) {
  if (!checkpoint.is_sharded()) return as_they_are(checkpoint);
  const std::string path = join_path(checkpoint.folder(), std::string(kManifestName));
  if (!status_of(calls, path)) return whole_of_dcp_shards(checkpoint);
  return Assembly(checkpoint, parse_manifest(read_whole_file(calls, path), kManifestName))
      .assemble();
}

}  // namespace weightloom
