#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "weightloom/base/error.h"
#include "weightloom/mapping/pattern_syntax_internal.h"

namespace weightloom {
namespace {

constexpr bool is_digit(char c) { return c >= '0' && c <= '9'; }
constexpr bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }
constexpr bool is_one_of(char c, std::string_view set) { return set.find(c) != set.npos; }

[[noreturn]] void refuse(const std::string& why) { throw Error(ErrorCode::mapping, why); }

/// One past the class that begins at `begin` ("[…]"); the end of the text if it is not closed.
size_t class_end(std::string_view text, size_t begin) {
  size_t at = begin + 1;
  if (at < text.size() && text[at] == '^') ++at;
  if (at < text.size() && text[at] == ']') ++at;
  while (at < text.size() && text[at] != ']') {
    const bool named = text.substr(at, 2) == "[:";
    const size_t close = named ? text.find(":]", at) : text.npos;
    if (close != text.npos) {
      at = close + 2;
    } else {
      at += text[at] == '\\' ? 2 : 1;
    }
  }
  return std::min(at + 1, text.size());
}

/// One past the token that begins at `begin`: an escape, a class or one byte.
size_t token_end(std::string_view text, size_t begin) {
  if (text[begin] == '[') return class_end(text, begin);
  return std::min(begin + (text[begin] == '\\' ? 2 : 1), text.size());
}

/// One past the group that begins at `begin`. Errors: mapping if it is not closed.
size_t group_end(std::string_view text, size_t begin) {
  int depth = 0;
  for (size_t at = begin; at < text.size(); at = token_end(text, at)) {
    if (text[at] == '(') ++depth;
    if (text[at] == ')' && --depth == 0) return at + 1;
  }
  refuse("a group is not closed");
}

bool is_look_around(std::string_view at_group) {
  return at_group.starts_with("(?=") || at_group.starts_with("(?!") ||
         at_group.starts_with("(?<=") || at_group.starts_with("(?<!");
}

bool captures(std::string_view at_group) {
  if (at_group.starts_with("(*")) return false;
  if (!at_group.starts_with("(?")) return true;
  return at_group.starts_with("(?P<") || at_group.starts_with("(?'") ||
         (at_group.starts_with("(?<") && !is_look_around(at_group));
}

/// The number after a backslash at `at`, and one past it; 0 if there is none.
std::pair<int, size_t> reference(std::string_view text, size_t at) {
  int number = 0;
  size_t end = at + 1;
  for (; end < text.size() && end < at + 3 && is_digit(text[end]); ++end) {
    number = 10 * number + (text[end] - '0');
  }
  return {number, end};
}

int count_groups(std::string_view text) {
  int count = 0;
  for (size_t at = 0; at < text.size(); at = token_end(text, at)) {
    if (text[at] == '(' && captures(text.substr(at))) ++count;
  }
  return count;
}

bool is_star(std::string_view text, size_t at) { return text.substr(at, 2) == "*."; }

/// Writes a source pattern as the engine's regular expression, numbering its groups.
class SourceWriter {
 public:
  SourceWriter(std::string_view pattern, std::span<const std::string> target_groups)
      : pattern_(pattern), target_groups_(target_groups), own_groups_(count_groups(pattern)) {
    const auto known = own_groups_ > 0 ? static_cast<size_t>(own_groups_) : target_groups.size();
    syntax_.groups.assign(known, 0);
  }

  SourceSyntax write() && {
    size_t at = 0;
    while (at < pattern_.size()) at = write_token(at);
    syntax_.captures = captures_;
    return std::move(syntax_);
  }

 private:
  size_t write_token(size_t at) {
    if (is_star(pattern_, at)) {
      syntax_.stars.push_back(++captures_);
      syntax_.regex += "(.*)\\.";
      return at + 2;
    }
    if (pattern_[at] == '\\') {
      const auto [number, end] = reference(pattern_, at);
      if (number > 0) {
        write_reference(number);
        return end;
      }
    }
    if (pattern_[at] == '(' && captures(pattern_.substr(at))) {
      syntax_.groups[static_cast<size_t>(own_groups_seen_++)] = ++captures_;
    }
    const size_t end = token_end(pattern_, at);
    syntax_.regex += pattern_.substr(at, end - at);
    return end;
  }

  /// The first \k of a source without groups is where the target's k-th group was taken from.
  void write_reference(int number) {
    const auto k = static_cast<size_t>(number);
    if (k > syntax_.groups.size()) {
      refuse(fmt::format("\\{} names no group: there are {}", number, syntax_.groups.size()));
    }
    int& group = syntax_.groups[k - 1];
    if (group != 0) {
      syntax_.regex += fmt::format("\\g{{{}}}", group);
    } else if (own_groups_ > 0) {
      refuse(fmt::format("\\{} stands before the group it names", number));
    } else {
      group = ++captures_;
      syntax_.regex += target_groups_[k - 1];
    }
  }

  std::string_view pattern_;
  std::span<const std::string> target_groups_;
  int own_groups_;
  int own_groups_seen_ = 0;
  int captures_ = 0;
  SourceSyntax syntax_;
};

/// Collects the literal runs that stand outside groups. Gives up, with none, on what it does not
/// know: the runs only spare the engine work.
class LiteralFinder {
 public:
  explicit LiteralFinder(std::string_view pattern) : pattern_(pattern) {}

  std::vector<std::string> find() && {
    size_t at = 0;
    while (at < pattern_.size()) {
      const size_t end = take(at);
      if (end == 0) return {};
      at = end;
    }
    end_run();
    return std::move(runs_);
  }

 private:
  /// One past what was taken at `at`; 0 to give up.
  size_t take(size_t at) {
    const char c = pattern_[at];
    if (is_star(pattern_, at)) {
      end_run();
      run_.assign(1, '.');
      return at + 2;
    }
    if (c == '\\') return take_escape(at);
    if (c == '(') return take_group(at);
    if (is_one_of(c, "|)]{}")) return 0;
    if (is_one_of(c, "*+?")) return run_.empty() ? at + 1 : 0;
    if (is_one_of(c, ".^$[")) {
      end_run();
      return token_end(pattern_, at);
    }
    run_ += c;
    return at + 1;
  }

  size_t take_escape(size_t at) {
    if (at + 1 == pattern_.size()) return 0;
    const char c = pattern_[at + 1];
    if (is_one_of(c, "dwsbDWSB")) {
      end_run();
    } else if (is_letter(c) || is_digit(c)) {
      return 0;
    } else {
      run_ += c;
    }
    return at + 2;
  }

  size_t take_group(size_t at) {
    const auto group = pattern_.substr(at);
    const bool plain = !group.starts_with("(?") && !group.starts_with("(*");
    if (!plain && !group.starts_with("(?:") && !is_look_around(group)) return 0;  // may set flags
    if (group.find("(?", 1) != group.npos) return 0;
    end_run();
    return group_end(pattern_, at);
  }

  void end_run() {
    if (!run_.empty()) runs_.push_back(std::exchange(run_, {}));
  }

  std::string_view pattern_;
  std::string run_;
  std::vector<std::string> runs_;
};

/// Reads a target pattern, without its anchors, into pieces.
class TargetReader {
 public:
  explicit TargetReader(std::string_view pattern) : pattern_(pattern) {}

  TargetSyntax read() && {
    size_t at = 0;
    while (at < pattern_.size()) at = read_token(at);
    const auto groups = static_cast<int>(syntax_.groups.size());
    if (groups > 0 && highest_reference_ > groups) {
      refuse(fmt::format("\\{} names no group: there are {}", highest_reference_, groups));
    }
    return std::move(syntax_);
  }

 private:
  size_t read_token(size_t at) {
    const char c = pattern_[at];
    if (c == '\\') return read_escape(at);
    if (c == '(') return read_group(at);
    if (is_star(pattern_, at)) {
      syntax_.pieces.push_back({TargetPiece::Kind::star, "", syntax_.stars++});
      add_text('.');
      return at + 2;
    }
    if (is_one_of(c, "*+?[]{}|)^$")) {
      refuse(fmt::format("'{}' at byte {} is not one text", c, at));
    }
    add_text(c);
    return at + 1;
  }

  size_t read_escape(size_t at) {
    const auto [number, end] = reference(pattern_, at);
    if (number > 0) {
      highest_reference_ = std::max(highest_reference_, number);
      add_group(number);
      return end;
    }
    const char c = at + 1 < pattern_.size() ? pattern_[at + 1] : 'x';
    if (is_letter(c) || is_digit(c)) {
      refuse(fmt::format("the escape at byte {} is not one text", at));
    }
    add_text(c);
    return at + 2;
  }

  size_t read_group(size_t at) {
    const auto rest = pattern_.substr(at);
    const size_t end = group_end(pattern_, at);
    if (is_look_around(rest)) return end;
    const auto group = pattern_.substr(at, end - at);
    if (!captures(rest) || count_groups(group) != 1) {
      refuse(fmt::format("the group '{}' is not one text", group));
    }
    syntax_.groups.emplace_back(group);
    add_group(static_cast<int>(syntax_.groups.size()));
    return end;
  }

  void add_group(int number) { syntax_.pieces.push_back({TargetPiece::Kind::group, "", number}); }

  void add_text(char c) {
    auto& pieces = syntax_.pieces;
    if (pieces.empty() || pieces.back().kind != TargetPiece::Kind::text) pieces.emplace_back();
    pieces.back().text += c;
  }

  std::string_view pattern_;
  int highest_reference_ = 0;
  TargetSyntax syntax_;
};

bool ends_in_dollar(std::string_view pattern) {
  if (!pattern.ends_with('$')) return false;
  pattern.remove_suffix(1);
  bool escaped = false;
  for (; pattern.ends_with('\\'); pattern.remove_suffix(1)) escaped = !escaped;
  return !escaped;
}

}  // namespace

TargetSyntax parse_target(std::string_view pattern) {
  const bool begin = pattern.starts_with('^');
  if (begin) pattern.remove_prefix(1);
  const bool end = ends_in_dollar(pattern);
  if (end) pattern.remove_suffix(1);
  TargetSyntax syntax = TargetReader(pattern).read();
  syntax.anchored_begin = begin;
  syntax.anchored_end = end;
  return syntax;
}

SourceSyntax parse_source(std::string_view pattern, const TargetSyntax& target) {
  SourceSyntax syntax = SourceWriter(pattern, target.groups).write();
  const char last = syntax.regex.empty() ? ' ' : syntax.regex.back();
  syntax.literals = LiteralFinder(pattern).find();
  if (target.anchored_begin && !pattern.starts_with('^'))
    syntax.regex.insert(syntax.regex.begin(), '^');
  if (target.anchored_end && !ends_in_dollar(pattern)) {
    syntax.regex += '$';
  } else if (is_letter(last) || is_digit(last)) {
    // A name boundary: `weight` matches `q_proj.weight`, not `q_proj.weight_scale_inv`.
    syntax.regex += "(?!\\w)";
  }
  return syntax;
}

}  // namespace weightloom
