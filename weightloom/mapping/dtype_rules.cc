#include "weightloom/mapping/dtype_rules.h"

#include <algorithm>
#include <vector>

#include "weightloom/mapping/pattern_internal.h"

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

struct DtypeRules::Compiled {
  struct Rule {
    DtypeRule form;
    Pattern pattern;
  };
  std::vector<Rule> rules;
};

DtypeRules::DtypeRules(const Mapping& mapping) : compiled_(std::make_shared<Compiled>()) {
  for (const DtypeRule& rule : mapping.dtype_rules()) {
    compiled_->rules.push_back(
        {rule, Pattern(syntax_of(rule.pattern), rule.pattern, Pattern::Use::search)});
  }
}

DType DtypeRules::dtype_of(std::string_view name, DType wanted) {
  for (auto& [form, pattern] : compiled_->rules) {
    const bool counts =
        form.when.empty() || std::ranges::find(form.when, wanted) != form.when.end();
    if (counts && pattern.search(name)) return form.dtype;
  }
  return wanted;
}

}  // namespace weightloom
