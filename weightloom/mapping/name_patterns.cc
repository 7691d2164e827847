#include "weightloom/mapping/name_patterns.h"

#include <algorithm>
#include <vector>

#include "weightloom/mapping/pattern_internal.h"

namespace weightloom {
namespace {

SourceSyntax plain_syntax(const std::string& pattern) {
  SourceSyntax syntax;
  syntax.regex = pattern;
  syntax.captures = -1;
  return syntax;
}

}  // namespace

struct NamePatterns::Compiled {
  std::vector<Pattern> patterns;
};

NamePatterns::NamePatterns(std::span<const std::string> patterns)
    : compiled_(std::make_shared<Compiled>()) {
  for (const std::string& pattern : patterns) {
    compiled_->patterns.emplace_back(plain_syntax(pattern), pattern, Pattern::Use::search);
  }
}

bool NamePatterns::match(std::string_view name) {
  return std::ranges::any_of(compiled_->patterns,
                             [&](Pattern& pattern) { return pattern.search(name).has_value(); });
}

}  // namespace weightloom
