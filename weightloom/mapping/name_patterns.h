// Regular expressions over names, searched anywhere, any of which may match: the lists that classes
// carry (what may be missing, what is tied).
// Thread safety: none; each thread needs its own.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "weightloom/base/export.h"

namespace weightloom WEIGHTLOOM_EXPORT {

/// Patterns, compiled.
class NamePatterns {
 public:
  /// Errors: mapping, naming the pattern, if one does not compile.
  explicit NamePatterns(std::span<const std::string> patterns);

  /// True if one of them matches somewhere in the name.
  /// Errors: mapping if a pattern is too costly to search in the name.
  bool match(std::string_view name);

 private:
  struct Compiled;
  std::shared_ptr<Compiled> compiled_;
};

}  // namespace weightloom
