// Which files of a folder make its checkpoint, decided from names alone. Private to this room.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "weightloom/base/error.h"

namespace weightloom {

struct FolderChoice {
  std::string index;               // the index to use; empty: none
  std::vector<std::string> files;  // without an index: the files to read, sorted
  bool is_sharded = false;         // one file of each rank: names repeat
};

bool is_safetensors_name(std::string_view name) noexcept;
bool is_safetensors_index_name(std::string_view name) noexcept;
/// .bin, .pt, .pth, .ckpt, or an index of such files.
bool is_pickle_name(std::string_view name) noexcept;
/// The refusal of pickled weights, with the way out.
Error refuse_pickle(std::string_view path, std::string_view example);

/// Those of `names` that are numbered as `like` is: of the same prefix and count. None if `like`
/// has no number.
std::vector<std::string> numbered_like(const std::vector<std::string>& names,
                                       std::string_view like);

/// `names`: all names in the folder, sorted.
/// Errors: checkpoint (several indexes, two numbered sets, a gap: all in findings()), not_found
///         (nothing to read), unsupported (pickled weights only).
FolderChoice choose_files(const std::string& folder, const std::vector<std::string>& names);

}  // namespace weightloom
