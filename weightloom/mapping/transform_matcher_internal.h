// One transform, ready to run over names: its source patterns compiled, its target patterns as
// templates.
//
// Stars pair from the left: as many as every pattern has are carried over; one more in a source
// collects, one more in a target enumerates.
//
// Thread safety: as Pattern, one per thread.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "weightloom/mapping/mapping.h"
#include "weightloom/mapping/pattern_internal.h"

namespace weightloom {

/// Where a name matched. Borrows from the matcher, until its next match.
struct TransformMatch {
  int source = 0;          ///< which source pattern
  PatternMatch at;         ///< in the name without its scope
  size_t scope_bytes = 0;  ///< of the name, before what patterns see
};

/// A target's full name; where it enumerates, the index goes in at `star`.
struct RenderedName {
  std::string text;
  size_t star = std::string::npos;

  friend bool operator==(const RenderedName&, const RenderedName&) = default;
  bool enumerates() const noexcept { return star != std::string::npos; }
  std::string at_index(int64_t index) const;
  /// As text, with a `*` where the index goes.
  std::string shown() const;
};

class TransformMatcher {
 public:
  /// Errors: mapping, naming the pattern.
  TransformMatcher(const WeightTransform& transform, Pattern::Use use);

  /// True if any source matches.
  bool matches(std::string_view name);
  /// The leftmost match of any source that begins at byte `from` of the name without its scope, or
  /// after it; at one place the longest source pattern wins.
  std::optional<TransformMatch> match(std::string_view name, size_t from = 0);
  /// `name` with the match replaced by target `target`.
  RenderedName render(const TransformMatch& match, std::string_view name, int target) const;
  /// The new name, or nothing if no source matches. Of a renaming.
  std::optional<std::string> rename(std::string_view name, size_t from = 0);
  /// The name that `forward` makes `name` of, where a source of this renaming, which reverses
  /// `forward`, matches: the first match whose result leads forth again. Nothing if there is none.
  std::optional<std::string> undo(std::string_view name, TransformMatcher& forward);
  /// What \1, \2, … stand for; empty for a group that took no part.
  std::vector<std::string_view> groups(const TransformMatch& match, std::string_view name) const;
  /// What the collecting star of the matched source holds; nothing if that source does not collect.
  std::optional<std::string_view> collected(const TransformMatch& match,
                                            std::string_view name) const;
  /// The name that would have matched source `source` in place of `match`, with `index` where it
  /// collects; nothing if that pattern is not one text.
  std::optional<std::string> sibling(const TransformMatch& match, std::string_view name, int source,
                                     int64_t index) const;

  int sources() const noexcept { return static_cast<int>(sources_.size()); }
  int targets() const noexcept { return static_cast<int>(targets_.size()); }
  bool collects(int source) const noexcept;
  bool enumerates(int target) const noexcept;

 private:
  struct Source {
    SourceSyntax syntax;
    Pattern pattern;
    std::optional<TargetSyntax> as_text;
  };

  void check_stars(bool is_renaming);
  void check_groups(bool is_renaming) const;
  std::optional<std::string> renamed(const TransformMatch& match, std::string_view name) const;
  std::optional<size_t> scope_bytes_of(std::string_view name) const noexcept;
  std::optional<std::string> shifted_index(const TransformMatch& match,
                                           std::string_view name) const;
  RenderedName filled(const std::vector<TargetPiece>& pieces, const TransformMatch& match,
                      std::string_view name) const;

  std::vector<Source> sources_;
  std::vector<size_t> order_;  // longest pattern first
  std::vector<TargetSyntax> targets_;
  int carried_ = 0;
  bool is_scoped_ = false;
  std::string scope_;             // "vision_tower.", or empty
  std::string base_model_scope_;  // "model.", or empty
  int64_t index_offset_ = 0;
};

}  // namespace weightloom
