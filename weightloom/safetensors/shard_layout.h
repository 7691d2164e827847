// The writer's side: which tensor goes into which file at which offset, decided before a byte
// moves.
// Thread safety: an immutable value.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "weightloom/base/export.h"
#include "weightloom/safetensors/checkpoint.h"
#include "weightloom/safetensors/header.h"

namespace weightloom WEIGHTLOOM_EXPORT {

/// A file of the output.
struct ShardFile {
  std::string name;  ///< relative to the output folder, may hold "/"
  Header header;     ///< of its tensors
};

/// What a file of the output is to hold.
struct FileContent {
  std::string name;             ///< relative to the output folder
  std::vector<size_t> tensors;  ///< by their places
  Metadata metadata;            ///< of its header
};

/// Where a tensor stands in the output.
struct TensorPlace {
  int32_t file = 0;          ///< into files()
  int64_t offset_bytes = 0;  ///< from the start of the file
};

/// Files share their data in blocks of this size, where the filesystem can share at all.
inline constexpr int64_t kSharedBlockBytes = 4096;

/// Which tensor goes into which file; see the top of this file.
class ShardLayout {
 public:
  /// One `model.safetensors` when all fits in `max_shard_bytes`, else `model-00001-of-0000N`,
  /// filled greedily in name order; a larger tensor gets a shard of its own.
  static ShardLayout by_size(std::span<const TensorSpec> tensors, int64_t max_shard_bytes,
                             const Metadata& metadata);
  /// One file of the given name, whatever its size, and no index.
  static ShardLayout one_file(std::span<const TensorSpec> tensors, std::string name,
                              const Metadata& metadata);
  /// One file for each of `files`, of the tensors at the places that it lists, and no index: a name
  /// may stand in several files, but in one only once.
  /// Errors: usage if a name repeats in a file, or a place is listed twice or not at all.
  static ShardLayout by_file(std::span<const TensorSpec> tensors,
                             const std::vector<FileContent>& files);
  /// Each tensor into the shard that `like` names for it; shards left empty are not written, and no
  /// index when all stands in `model.safetensors`.
  /// Errors: usage if a tensor is not in `like` (all named).
  static ShardLayout like_index(std::span<const TensorSpec> tensors, const Index& like,
                                const Metadata& metadata);
  /// Exactly these files with these headers, and this index text.
  /// Errors: usage if their tensors are not `tensors`, each once.
  static ShardLayout verbatim(std::span<const TensorSpec> tensors, std::vector<ShardFile> files,
                              std::optional<std::pair<std::string, std::string>> index);
  /// The files of `source`, with `names[i]` for source.tensors()[i]. A file that keeps its names
  /// keeps its header's bytes; one with other names keeps its data section (Header::with_names);
  /// one that holds more than the checkpoint takes from it is laid out anew. The index keeps its
  /// text unless a name changed. A source of one file becomes `model.safetensors`. Nothing if
  /// `tensors` are not those of the source.
  static std::optional<ShardLayout> like_source(std::span<const TensorSpec> tensors,
                                                const Checkpoint& source,
                                                std::span<const std::string> names);

  /// In the order in which they are written.
  std::span<const ShardFile> files() const noexcept { return files_; }
  /// places()[i] is where tensors[i], as given to the factory, goes.
  std::span<const TensorPlace> places() const noexcept { return places_; }
  /// Name and text of the index; none for one file.
  const std::optional<std::pair<std::string, std::string>>& index() const noexcept {
    return index_;
  }
  /// Of all files, headers included; the index is not counted.
  int64_t total_file_bytes() const noexcept;

 private:
  ShardLayout() = default;

  std::vector<ShardFile> files_;
  std::vector<TensorPlace> places_;
  std::optional<std::pair<std::string, std::string>> index_;
};

}  // namespace weightloom
