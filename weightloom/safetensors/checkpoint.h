// A checkpoint: one safetensors file, a folder of them, or an index, resolved from headers alone to
// name → file, dtype, shape, byte range.
//
// What a folder is: `model.safetensors.index.json`; else the only `*.safetensors.index.json`
// (several: refused); else `model.safetensors`; else one complete `*-NNNNN-of-NNNNN.safetensors`
// set (a gap or a second set: refused); else all `*.safetensors`. The index decides which shard
// holds a name; it is checked both ways against the headers. Files left out are reported.
//
// A folder with `layout.json`, or with files called as PyTorch's distributed checkpoints call them,
// is a sharded folder: each file holds what one rank has, and a name stands once a rank
// (rank_files.h; sharding/whole_tensors.h puts them together). Thread safety: an immutable value.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "weightloom/base/error.h"
#include "weightloom/base/export.h"
#include "weightloom/base/file.h"
#include "weightloom/safetensors/header.h"
#include "weightloom/safetensors/name_table.h"

namespace weightloom WEIGHTLOOM_EXPORT {

/// A file of a checkpoint, as it was when it was opened.
struct CheckpointFile {
  std::string name;   ///< as the index spells it, or relative to the folder
  std::string path;   ///< to open
  FileStatus status;  ///< when the header was read
  Header header;      ///< checked whole
};

/// A tensor of a checkpoint and where its bytes stand.
struct StoredTensor {
  std::string name;          ///< whole, as its header spells it
  DType dtype = DType::F32;  ///< of each element
  Shape shape;               ///< row-major
  int32_t file = 0;          ///< into files()
  int64_t offset_bytes = 0;  ///< from the start of the file
  int64_t size_bytes = 0;    ///< of its data
};

/// The index of a sharded checkpoint. `weight_map` in file order, names and shards checked: no
/// duplicate key, no absolute path, no ".." or "." or empty part, no backslash, no NUL, no empty
/// shard.
struct Index {
  std::vector<std::pair<std::string, std::string>> weight_map;  ///< tensor → shard
  std::optional<int64_t> total_size;        ///< bytes of all tensors, as the file states
  std::optional<int64_t> total_parameters;  ///< elements of all tensors, as the file states
};

/// Why a text may not name a file of a checkpoint, relative to its folder, or "": it could lead out
/// of the folder, or is not the one spelling of its path.
std::string_view fault_of_file_name(std::string_view name) noexcept;

/// A `json` that read_whole_file gave is parsed in place, any other is copied.
/// Errors: format, naming `file` and the entry.
Index parse_index(const std::string& json, std::string_view file);
/// `{"metadata": {"total_parameters", "total_size"}, "weight_map"}`, keys sorted, indent 2, newline
/// at the end, all but ASCII escaped; as Transformers writes it.
/// Errors: usage if a name is not UTF-8.
std::string format_index(const Index& index);

/// A checkpoint that is whole as far as headers and index tell; see the top of this file.
class Checkpoint {
 public:
  /// Reads all headers, on up to `threads` threads. `path`: a .safetensors file, a folder, or an
  /// index.
  /// Errors: not_found, permission, io; unsupported for pickled weights (.bin, .pt, .pth,
  /// .ckpt), with
  ///         the way out; format if the index or only headers are malformed; else checkpoint. All
  ///         that is wrong with the set of files stands in findings(), by code: malformed_header,
  ///         missing_shard, wrong_shard, index_entry_without_tensor, duplicate_tensor, shard_gap,
  ///         two_shard_sets, two_indexes.
  static Checkpoint open(const Syscalls& calls, const std::string& path, int threads = 1);

  /// The path given, without a trailing slash.
  const std::string& path() const noexcept { return path_; }
  /// The folder that side files (config.json) stand in.
  const std::string& folder() const noexcept { return folder_; }
  /// True if path() is one .safetensors file.
  bool is_single_file() const noexcept { return is_single_file_; }
  /// True for a sharded folder: tensors() are the parts that ranks hold.
  bool is_sharded() const noexcept { return is_sharded_; }
  /// Sorted by name.
  std::span<const CheckpointFile> files() const noexcept { return files_; }
  /// Sorted by name, bytewise; those of one name by file.
  std::span<const StoredTensor> tensors() const noexcept { return tensors_; }
  /// Nothing if there is none; of several the first.
  const StoredTensor* find(std::string_view name) const noexcept;
  int64_t data_bytes() const noexcept { return data_bytes_; }  ///< of tensors()
  /// Name and text of the index, when one was used.
  const std::optional<std::pair<std::string, std::string>>& index() const noexcept {
    return index_;
  }
  /// Report-level facts, by code: unused_file, unindexed_tensor (also a second copy of a tensor
  /// that the index places elsewhere), wrong_total_size.
  std::span<const Finding> findings() const noexcept { return findings_; }

 private:
  friend class CheckpointBuilder;
  Checkpoint() = default;

  std::string path_;
  std::string folder_;
  bool is_single_file_ = false;
  bool is_sharded_ = false;
  std::vector<CheckpointFile> files_;
  std::vector<StoredTensor> tensors_;
  NameTable lookup_;  // positions in tensors_
  int64_t data_bytes_ = 0;
  std::optional<std::pair<std::string, std::string>> index_;
  std::vector<Finding> findings_;
};

}  // namespace weightloom
