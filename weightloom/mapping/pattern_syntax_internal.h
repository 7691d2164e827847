// The text of patterns: what a mapping's source and target patterns say, before an engine compiles
// them.
//
// A source pattern is a regular expression in which `*.` stands for an index and a dot, and which
// must not end in the middle of a word. A target pattern is read as text with places to fill in:
// \1, \2, … and `*.`. So that a source pattern can be read backwards, anchors and look-arounds are
// dropped from a target pattern, and a capture group in it stands for its back-reference.
//
// Thread safety: values and pure functions.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace weightloom {

/// A source pattern, ready for the engine.
struct SourceSyntax {
  std::string regex;
  int captures = 0;         ///< groups that the engine must find in `regex`; -1: any number
  std::vector<int> groups;  ///< engine's number of what targets call \1, \2, …; 0: there is none
  std::vector<int> stars;   ///< engine's number of each `*.`, from the left
  std::vector<std::string> literals;  ///< every matching name holds these, in this order, apart
};

/// A part of a target pattern.
struct TargetPiece {
  enum class Kind { text, group, star };
  Kind kind = Kind::text;
  std::string text;  ///< of text
  int number = 0;    ///< of group: 1 for \1; of star: 0 for the first
};

struct TargetSyntax {
  std::vector<TargetPiece> pieces;
  std::vector<std::string> groups;  ///< "(…)" as written, for a source that names them \1, \2, …
  int stars = 0;
  bool anchored_begin = false;
  bool anchored_end = false;
};

/// Errors: mapping, if the pattern has something that is not one text (a class, a quantifier, a
/// choice).
TargetSyntax parse_target(std::string_view pattern);

/// `target` is the target pattern that this source is paired with: \k in the source stands for its
/// k-th group when the source has none of its own, and its anchors hold for the source too.
/// Errors: mapping, if a back-reference names no group.
SourceSyntax parse_source(std::string_view pattern, const TargetSyntax& target);

}  // namespace weightloom
