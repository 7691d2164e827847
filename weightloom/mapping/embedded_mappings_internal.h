// The files of mappings/, as text inside the library. The source is generated (cmake/embed.cmake).
#pragma once

#include <span>
#include <string_view>

namespace weightloom {

struct EmbeddedFile {
  std::string_view name;  ///< "mixtral.json"
  std::string_view text;
};

/// Sorted by name.
std::span<const EmbeddedFile> embedded_mappings() noexcept;

}  // namespace weightloom
