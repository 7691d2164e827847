// A compiled source pattern: a regular expression searched in names, with limits so that no pattern
// and no name can hold the program up.
//
// Thread safety: a Pattern keeps the place of its last match, so each thread needs its own.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "weightloom/mapping/pattern_syntax_internal.h"

namespace weightloom {

/// Byte offsets of a match: of group g, [offsets[2g], offsets[2g+1]); of the whole, group 0.
/// Borrows from the pattern, until its next search.
class PatternMatch {
 public:
  explicit PatternMatch(std::span<const size_t> offsets) : offsets_(offsets) {}

  size_t begin() const noexcept { return offsets_[0]; }
  size_t end() const noexcept { return offsets_[1]; }
  /// Text of a group; empty if it took no part in the match.
  std::string_view group(int number, std::string_view name) const noexcept;

 private:
  std::span<const size_t> offsets_;
};

class Pattern {
 public:
  enum class Use { check, search };  ///< check: compiled only to see that it compiles

  /// `shown` is the pattern as the user wrote it, for messages.
  /// Errors: mapping, naming the pattern and the place in it, if it does not compile.
  Pattern(const SourceSyntax& syntax, std::string shown, Use use);

  /// The leftmost match that begins at byte `from` or after it. What stands before `from` is seen
  /// by anchors and look-behinds. Errors: mapping, naming the pattern, if the search exceeds its
  ///         limits.
  std::optional<PatternMatch> search(std::string_view name, size_t from = 0);

 private:
  struct Engine;
  struct Close {
    void operator()(Engine* engine) const noexcept;
  };

  bool holds_literals(std::string_view name) const noexcept;

  std::string shown_;
  std::vector<std::string> literals_;
  std::string longest_literal_;
  size_t rare_ = 0;  // the place in it of its rarest character
  std::unique_ptr<Engine, Close> engine_;
};

}  // namespace weightloom
