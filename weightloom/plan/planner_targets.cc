// What becomes of a conversion's targets: casts, ties, what the runtime expects, the program.
#include <algorithm>
#include <iterator>
#include <set>
#include <string_view>
#include <unordered_map>
#include <utility>

#include <fmt/format.h>

#include "weightloom/codec/cast.h"
#include "weightloom/plan/cast_rules_internal.h"
#include "weightloom/plan/fit_expected_internal.h"
#include "weightloom/plan/planner_internal.h"

namespace weightloom {
namespace {

template <typename T>
void append(std::vector<T>& to, std::vector<T> from) {
  to.insert(to.end(), std::make_move_iterator(from.begin()), std::make_move_iterator(from.end()));
}

/// Castable dtypes become the expected ones. True if one changed.
bool cast_to_expected(std::vector<NamedLayout>& targets, const Expected& expected) {
  std::unordered_map<std::string_view, DType> wanted;
  for (const ExpectedTensor& tensor : expected.tensors) {
    if (tensor.dtype && is_castable(*tensor.dtype)) wanted.emplace(tensor.name, *tensor.dtype);
  }
  bool changed = false;
  for (NamedLayout& target : targets) {
    const auto found = wanted.find(target.name);
    if (found == wanted.end() || !is_castable(target.dtype)) continue;
    changed = changed || target.dtype != found->second;
    target.dtype = found->second;
  }
  return changed;
}

}  // namespace

void Planner::cast_targets(std::vector<NamedLayout>& targets) {
  if (selection_.dtype) casts_.push_back({*selection_.dtype, selection_.keep_dtype});
  result_.config.dtype = selection_.dtype;
  Casting of_decoded({{dtype_of_decoded(), {}}}, rules_, targets);
  for (NamedLayout& target : targets) {
    if (is_decoded(target)) target.dtype = of_decoded.dtype_of(target);
  }
  Casting casting(casts_, rules_, targets);
  for (NamedLayout& target : targets) target.dtype = casting.dtype_of(target);
  if (selection_.expected && selection_.expected->cast) {
    changed_by_expectation_ = cast_to_expected(targets, *selection_.expected);
  }
  if (!result_.original_files.empty()) note_changed_dtypes(targets);
}

/// Casts since the original: its headers serve only where every dtype is the original's again.
void Planner::note_changed_dtypes(const std::vector<NamedLayout>& targets) {
  ChangedDTypes changed = changed_dtypes(targets, recorded_dtypes_, *facts_.record);
  if (changed.finding) result_.findings.push_back(std::move(*changed.finding));
  if (!changed.any) return;
  result_.original_files.clear();
  result_.original_index.reset();
}

/// Which names stand for another's tensor. Of ties that are only assumed, an expectation must tell.
void Planner::tie(std::vector<NamedLayout>& targets) {
  const ModelFacts& model = choice_.model;
  std::vector<std::string> there;
  for (const NamedLayout& target : targets) there.push_back(target.name);
  std::ranges::sort(there);
  std::vector<std::string> wanted;
  if (selection_.expected) wanted = expected_names(*selection_.expected);
  std::vector<std::string> names = wanted;
  names.insert(names.end(), there.begin(), there.end());
  std::ranges::sort(names);
  const auto again = std::ranges::unique(names);
  names.erase(again.begin(), again.end());
  TiedOutcome outcome = resolve_tied(expand_tied(model.tied, names), there, wanted);
  const bool is_known = !model.ties_are_assumed || selection_.expected;
  if (result_.to != Side::hub && is_known) result_.tied = std::move(outcome.restored);
  result_.tied_but_stored = std::move(outcome.stored);
  result_.ties = model.tied;
  if (selection_.expected) name_after_wanted(targets);
}

/// A tensor whose own name no one expects, but a name tied to it, is made under that name.
void Planner::name_after_wanted(std::vector<NamedLayout>& targets) {
  const std::vector<std::string> wanted = expected_names(*selection_.expected);
  const std::vector<TiedName> ties = result_.tied;
  for (const TiedName& tie : ties) {
    if (std::ranges::binary_search(wanted, tie.same_as)) continue;
    const auto holder = std::ranges::find(targets, tie.same_as, &NamedLayout::name);
    if (holder == targets.end()) continue;  // another tie has named it
    holder->name = tie.name;
    std::erase(result_.tied, tie);
    for (TiedName& other : result_.tied) {
      if (other.same_as == tie.same_as) other.same_as = tie.name;
    }
    changed_by_expectation_ = true;
  }
}

std::vector<NamedLayout> Planner::fit(std::vector<NamedLayout> targets) {
  if (!selection_.expected) return targets;
  const size_t before = targets.size();
  Fitted fitted = fit_expected(std::move(targets), selection_, choice_.model, result_.tied);
  append(result_.findings, std::move(fitted.findings));
  for (const SourceId source : fitted.left_out) leave_out(source);
  changed_by_expectation_ = changed_by_expectation_ || fitted.targets.size() != before;
  return std::move(fitted.targets);
}

/// A source that nothing is made of, by the caller's expectation.
void Planner::leave_out(SourceId source) {
  const auto place = static_cast<size_t>(source);
  const size_t stored = whole_.tensors.size();
  left_out_.insert(place < stored ? whole_.tensors[place].name : computed_[place - stored].name);
}

/// With errors found already, the rest is compiled only to show it: what its sources lack is known.
void Planner::compile_targets(std::vector<NamedLayout> targets) {
  const bool is_sound = !has_errors(result_.findings);
  std::ranges::sort(targets, {}, &NamedLayout::name);
  std::vector<ProgramSource> sources = source_.is_sharded() ? whole_sources() : stored_sources();
  sources.insert(sources.end(), computed_.begin(), computed_.end());
  std::optional<Storage> storage;
  if (source_.is_sharded()) storage = Storage{stored_sources(), whole_layouts()};
  const MayCast cast = may_cast_of(targets);
  Compiled compiled = compile(program_files(), std::move(sources), std::move(targets), cast,
                              std::move(storage), std::move(nodes_));
  for (Finding& finding : compiled.findings) {
    if (finding.code == "source_not_used" && (!is_sound || is_known_to_be_left_out(finding))) {
      continue;
    }
    result_.findings.push_back(std::move(finding));
  }
  select(std::move(compiled.program));
  keep_ties_of_targets();
}

/// Ties stand beside targets that are made.
void Planner::keep_ties_of_targets() {
  std::set<std::string_view> made;
  for (const ProgramTarget& target : result_.program.targets()) made.insert(target.name);
  std::erase_if(result_.tied, [&](const TiedName& tie) {
    if (made.contains(tie.same_as) && is_selected(selection_, tie.name)) return false;
    if (is_selected(selection_, tie.name)) {
      result_.findings.push_back(
          {Severity::report, "tied_left_out", tie.name, "",
           fmt::format("'{}' is tied to '{}', which is left out", tie.name, tie.same_as)});
    }
    return true;
  });
  std::erase_if(result_.tied_but_stored, [&](const TiedName& tie) {
    return !made.contains(tie.name) || !made.contains(tie.same_as);
  });
}

/// True for a source whose target has been found to be unexpected or mismatched.
bool Planner::is_known_to_be_left_out(const Finding& finding) const {
  return left_out_.contains(finding.tensor);
}

/// Targets that the caller's cast reaches, and those that are decoded.
MayCast Planner::may_cast_of(std::span<const NamedLayout> targets) const {
  if (computed_.empty()) return may_cast();
  std::set<std::string> decoded;
  for (const NamedLayout& target : targets) {
    if (is_decoded(target)) decoded.insert(target.name);
  }
  return [decoded = std::move(decoded), others = may_cast()](const std::string& name) {
    return decoded.contains(name) || others(name);
  };
}

/// Targets that the caller's cast reaches.
MayCast Planner::may_cast() const {
  if (selection_.expected && selection_.expected->cast) {
    std::set<std::string> cast;
    for (const ExpectedTensor& tensor : selection_.expected->tensors) {
      if (tensor.dtype) cast.insert(tensor.name);
    }
    return [cast = std::move(cast)](const std::string& name) { return cast.contains(name); };
  }
  return
      [this](const std::string& name) { return !casts_.empty() && !is_kept(casts_.front(), name); };
}

void Planner::select(CopyProgram program) {
  if (!selection_.is_partial()) {
    result_.program = std::move(program);
    return;
  }
  std::vector<bool> keep;
  for (const ProgramTarget& target : program.targets()) {
    keep.push_back(is_selected(selection_, target.name));
  }
  result_.deselected = std::count(keep.begin(), keep.end(), false);
  if (!keep.empty() && result_.deselected == static_cast<int64_t>(keep.size())) {
    add_error("nothing_selected", "",
              fmt::format("--include and --exclude leave none of {} targets", keep.size()));
  }
  result_.program = select_targets(program, keep);
}

std::vector<ProgramFile> Planner::program_files() const {
  std::vector<ProgramFile> files;
  for (const CheckpointFile& file : source_.files()) {
    files.push_back({file.name, file.path, file.status});
  }
  return files;
}

/// The whole tensors of a sharded folder, which stand in no file as they are.
std::vector<ProgramSource> Planner::whole_sources() const {
  std::vector<ProgramSource> sources;
  for (const NamedLayout& tensor : whole_.tensors) {
    sources.push_back({tensor.name, tensor.dtype, tensor.layout.shape()});
  }
  return sources;
}

std::vector<Layout> Planner::whole_layouts() const {
  std::vector<Layout> layouts;
  for (const NamedLayout& tensor : whole_.tensors) layouts.push_back(tensor.layout);
  return layouts;
}

ProgramSource stored_source(const StoredTensor& tensor) {
  return {tensor.name, tensor.dtype,        tensor.shape,
          tensor.file, tensor.offset_bytes, tensor.size_bytes};
}

std::vector<ProgramSource> Planner::stored_sources() const {
  std::vector<ProgramSource> sources;
  sources.reserve(source_.tensors().size());
  for (const StoredTensor& tensor : source_.tensors()) {
    sources.push_back(stored_source(tensor));
  }
  return sources;
}

}  // namespace weightloom
