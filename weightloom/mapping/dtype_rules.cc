#include <algorithm>

#include "weightloom/mapping/dtype_rules_internal.h"

namespace weightloom {
namespace {

/// `*` is any text, and nothing bounds a name.
SourceSyntax syntax_of(const std::string& pattern) {
  SourceSyntax syntax;
  syntax.captures = -1;
  for (const char c : pattern) {
    if (c == '*') syntax.regex += '.';
    syntax.regex += c;
  }
  return syntax;
}

}  // namespace

DtypeRules::DtypeRules(const Mapping& mapping) {
  for (const DtypeRule& rule : mapping.dtype_rules()) {
    rules_.push_back({rule, Pattern(syntax_of(rule.pattern), rule.pattern, Pattern::Use::search)});
  }
}

DType DtypeRules::dtype_of(std::string_view name, DType wanted) {
  for (Rule& rule : rules_) {
    const auto& when = rule.form.when;
    if (!when.empty() && std::ranges::find(when, wanted) == when.end()) continue;
    if (rule.pattern.search(name)) return rule.form.dtype;
  }
  return wanted;
}

}  // namespace weightloom
