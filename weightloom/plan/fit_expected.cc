#include <algorithm>
#include <map>
#include <utility>

#include <fmt/format.h>

#include "weightloom/mapping/name_patterns.h"
#include "weightloom/plan/fit_expected_internal.h"

namespace weightloom {
namespace {

std::string text_of(const std::optional<DType>& dtype, const std::optional<Shape>& shape) {
  std::string text;
  if (dtype) text += fmt::format(" {}", to_string(*dtype));
  if (shape) text += fmt::format(" {}", to_string(*shape));
  return text;
}

class Fitting {
 public:
  Fitting(const Selection& selection, const ModelFacts& model, std::span<const TiedName> tied)
      : selection_(selection),
        expected_(*selection.expected),
        model_(model),
        may_be_missing_(model.ignore_missing),
        may_be_unexpected_(model.ignore_unexpected) {
    for (const ExpectedTensor& tensor : expected_.tensors) places_.emplace(tensor.name, &tensor);
    for (const TiedName& name : tied) tied_.emplace(name.same_as, name.name);
  }

  Fitted fit(std::vector<NamedLayout> targets) && {
    for (NamedLayout& target : targets) take(std::move(target));
    for (const SourceId source : used_) result_.left_out.erase(source);
    for (const ExpectedTensor& tensor : expected_.tensors) {
      if (!made_.contains(tensor.name) && is_selected(selection_, tensor.name)) miss(tensor);
    }
    return std::move(result_);
  }

 private:
  void take(NamedLayout target) {
    const auto place = places_.find(target.name);
    const bool is_expected = place != places_.end();
    if (is_expected) made_.insert(target.name);
    if (!is_selected(selection_, target.name)) {
      for (const Region& region : target.layout.regions()) used_.insert(region.source);
      result_.targets.push_back(std::move(target));  // left out when the program is made
      return;
    }
    if (!is_expected) {
      refuse_unexpected(target);
    } else if (fits(target, *place->second)) {
      take_tied(target);
      for (const Region& region : target.layout.regions()) used_.insert(region.source);
      result_.targets.push_back(std::move(target));
      return;
    }
    for (const Region& region : target.layout.regions()) {
      if (!region.is_pad()) result_.left_out.insert(region.source);
    }
  }

  /// The names that stand for a target that is made must fit too.
  void take_tied(const NamedLayout& target) {
    const auto [first, last] = tied_.equal_range(target.name);
    for (auto tie = first; tie != last; ++tie) {
      made_.insert(tie->second);
      const auto place = places_.find(tie->second);
      if (place != places_.end()) fits(target, *place->second);
    }
  }

  bool fits(const NamedLayout& target, const ExpectedTensor& wanted) {
    const bool same_shape = !wanted.shape || *wanted.shape == target.layout.shape();
    if (same_shape && (!wanted.dtype || *wanted.dtype == target.dtype)) return true;
    const bool let_pass = !same_shape && expected_.may_mismatch;
    add(let_pass ? Severity::report : Severity::error, "mismatched", wanted.name,
        fmt::format("'{}' would be {} {}, but{} is expected", wanted.name, to_string(target.dtype),
                    to_string(target.layout.shape()), text_of(wanted.dtype, wanted.shape)));
    return false;
  }

  void refuse_unexpected(const NamedLayout& target) {
    const bool let_pass = may_be_unexpected_.match(target.name);
    add(let_pass ? Severity::report : Severity::strict, "unexpected", target.name,
        fmt::format("'{}' {} {} is not expected{}", target.name, to_string(target.dtype),
                    to_string(target.layout.shape()),
                    let_pass ? "; the model's class says that it may be there" : ""));
  }

  void miss(const ExpectedTensor& tensor) {
    const bool by_class = may_be_missing_.match(tensor.name);
    const bool let_pass = by_class || expected_.may_miss;
    add(let_pass ? Severity::report : Severity::error, "missing", tensor.name,
        fmt::format("'{}'{} is expected, but nothing makes it{}{}", tensor.name,
                    text_of(tensor.dtype, tensor.shape), untied_note(tensor.name),
                    by_class ? "; the model's class says that it may be missing" : ""));
  }

  /// What config.json says of a name that could have been tied.
  std::string untied_note(const std::string& name) const {
    for (const auto& [target, source] : model_.untied) {
      if (name != target && name != source) continue;
      return fmt::format("; config.json says tie_word_embeddings false, so it is not '{}'",
                         name == target ? source : target);
    }
    return "";
  }

  void add(Severity severity, std::string code, const std::string& tensor, std::string message) {
    result_.findings.push_back({severity, std::move(code), tensor, "", std::move(message)});
  }

  const Selection& selection_;
  const Expected& expected_;
  const ModelFacts& model_;
  NamePatterns may_be_missing_;
  NamePatterns may_be_unexpected_;
  std::map<std::string_view, const ExpectedTensor*> places_;
  std::set<std::string> made_;
  std::multimap<std::string, std::string> tied_;  // by the target, the names that stand for it
  std::set<SourceId> used_;
  Fitted result_;
};

}  // namespace

Fitted fit_expected(std::vector<NamedLayout> targets, const Selection& selection,
                    const ModelFacts& model, std::span<const TiedName> tied) {
  return Fitting(selection, model, tied).fit(std::move(targets));
}

std::vector<std::string> expected_names(const Expected& expected) {
  std::vector<std::string> names;
  names.reserve(expected.tensors.size());
  for (const ExpectedTensor& tensor : expected.tensors) names.push_back(tensor.name);
  std::ranges::sort(names);
  return names;
}

}  // namespace weightloom
