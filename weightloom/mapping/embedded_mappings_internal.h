// The files of mappings/, as text inside the library. The source is generated (cmake/embed.cmake).
#pragma once

#include <span>
#include <string_view>

namespace weightloom {

struct EmbeddedFile {
  std::string_view file;     ///< "mixtral.json"
  std::string_view mapping;  ///< name of the mapping in it; empty: it is none
  std::string_view aliases;  ///< of the mapping, each with a space behind
  std::string_view text;
};

/// Sorted by file. Two are no mappings: models.json and parallel_plans.json.
std::span<const EmbeddedFile> embedded_mappings() noexcept;

}  // namespace weightloom
