#include "weightloom/plan/conversion.h"

#include <algorithm>
#include <iterator>
#include <unordered_map>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "weightloom/layout/operations.h"
#include "weightloom/mapping/spelling.h"
#include "weightloom/plan/compile.h"
#include "weightloom/plan/fit_expected_internal.h"
#include "weightloom/plan/planner_internal.h"
#include "weightloom/plan/way_back_internal.h"

namespace weightloom {
namespace {

template <typename T>
void append(std::vector<T>& to, std::vector<T> from) {
  to.insert(to.end(), std::make_move_iterator(from.begin()), std::make_move_iterator(from.end()));
}

/// True if each element of `made` comes from the same place of the leaf's source: then both
/// sides of a region begin at one offset and move alike along every axis.
bool is_same_layout(const Layout& made, const Layout& leaf) {
  if (made.shape() != leaf.shape()) return false;
  const SourceId source = leaf.regions().empty() ? 0 : leaf.regions().front().source;
  return std::ranges::all_of(made.regions(), [&](const Region& region) {
    return region.source == source && region.source_offset == region.target_offset &&
           std::ranges::all_of(region.axes, [](const Axis& axis) {
             return axis.source_stride == axis.target_stride;
           });
  });
}

/// The class that the caller names must be known; config.json's need not.
void refuse_unknown_class(const Registry& registry, const std::string& name) {
  const std::vector<std::string> known = registry.models().class_names();
  if (known.empty() || registry.contains(name) || registry.models().find(name)) return;
  const std::vector<std::string> near = closest(name, known, 3);
  throw Error(
      ErrorCode::mapping,
      fmt::format("no model class is called '{}'{}", name,
                  near.empty() ? "" : fmt::format("; did you mean {}?", fmt::join(near, " or "))),
      "name a class of Transformers, or register rules for yours (--mapping DIR)");
}

}  // namespace

bool has_errors(const std::vector<Finding>& findings) {
  return std::any_of(findings.begin(), findings.end(),
                     [](const Finding& finding) { return finding.severity == Severity::error; });
}

Conversion Planner::plan() && {
  whole_ = whole_tensors(calls_, source_);
  append(result_.findings, std::move(whole_.findings));
  choose_rules();
  rename_sources();
  leaves_ = leaves_of_source();
  decode_leaves();
  resolve_sides();
  result_.metadata = {{"format", "pt"}};
  std::vector<NamedLayout> targets = make_targets();
  if (!selection_.load_specs.empty()) targets = apply_specs(targets);
  cast_targets(targets);
  if (selection_.load_specs.empty()) tie(targets);
  encode_targets_of(targets);
  targets = fit(std::move(targets));
  compile_targets(std::move(targets));
  rename_modules();
  record();
  spread();
  return std::move(result_);
}

void Planner::choose_rules() {
  facts_ = read_side_facts(calls_, source_, registry_.operations());
  if (!selection_.architecture.empty()) {
    facts_.architecture = selection_.architecture;
    refuse_unknown_class(registry_, selection_.architecture);
  }
  result_.findings.insert(result_.findings.end(), source_.findings().begin(),
                          source_.findings().end());
  choice_ = choose_mapping(calls_, source_, facts_, selection_.mapping, registry_,
                           selection_.to.has_value());
  append(result_.findings, choice_.findings);
  result_.mapping = choice_.label;
  rules_ = choice_.mapping;
  if (!selection_.expected || choice_.label == "none") return;
  const auto& prefix = selection_.expected->base_model_prefix;
  choice_.model.runtime =
      RuntimeNames::exactly(expected_names(*selection_.expected),
                            prefix.value_or(choice_.model.runtime.base_model_prefix()));
}

void Planner::rename_sources() {
  std::vector<std::string_view> names;
  for (const NamedLayout& tensor : whole_.tensors) names.push_back(tensor.name);
  RenamedNames renamed = apply_renames(selection_.renames, names, threads_);
  append(result_.findings, std::move(renamed.findings));
  names_ = std::move(renamed.names);
  for (size_t i = 0; i < names.size(); ++i) result_.renamed += names_[i] != names[i] ? 1 : 0;
}

/// The source's tensors as they are, under their new names. One that lost its name to another
/// (which is refused) is left out.
std::vector<NamedLayout> Planner::leaves_of_source() const {
  std::vector<NamedLayout> leaves;
  leaves.reserve(names_.size());
  for (size_t i = 0; i < names_.size(); ++i) {
    const NamedLayout& tensor = whole_.tensors[i];
    if (!names_[i]) continue;
    leaves.push_back(
        {*names_[i], tensor.dtype, identity(static_cast<SourceId>(i), tensor.layout.shape())});
  }
  return leaves;
}

Side Planner::side_of_source() const {
  std::vector<std::string_view> names;
  names.reserve(leaves_.size());
  for (const NamedLayout& leaf : leaves_) names.push_back(leaf.name);
  return detect_side(names, facts_, choice_.mapping, choice_.model.runtime);
}

void Planner::resolve_sides() {
  result_.from = selection_.from;
  if (result_.from == Side::unknown) {
    result_.from = side_of_source();
  }
  // What the model does not have is renamed, what it has stays: forwards no name can go wrong.
  if (result_.from == Side::unknown && selection_.to == Side::runtime &&
      choice_.model.runtime.known()) {
    result_.from = Side::hub;
  }
  result_.to = selection_.to.value_or(result_.from);
  if (result_.from != Side::unknown || !selection_.to) return;
  if (choice_.mapping.empty()) {  // both sides have the same names
    result_.from = result_.to == Side::runtime ? Side::hub : Side::runtime;
    return;
  }
  if (has_errors(result_.findings)) {  // renames went wrong: names are not what was meant
    result_.from = result_.to;
    return;
  }
  throw Error(ErrorCode::usage,
              fmt::format("{}: the names do not tell whether this is the hub or the runtime "
                          "layout of mapping '{}'",
                          source_.path(), choice_.label),
              "say which with --from hub or --from runtime");
}

std::vector<NamedLayout> Planner::make_targets() {
  if (!converts()) {
    result_.passed_through = static_cast<int64_t>(leaves_.size()) - result_.renamed;
    return leaves();
  }
  if (result_.to == Side::runtime) {
    if (choice_.with_old_names) {
      rules_ = *choice_.with_old_names;
    } else if (choice_.with_legacy) {
      rules_ = rules_.followed_by(registry_.legacy());
    }
    return apply_rules(rules_);
  }
  if (goes_back_by_record()) return go_back_by_record();
  return go_back_by_rules();
}

std::vector<NamedLayout> Planner::apply_rules(const Mapping& mapping) {
  MappingResult applied =
      apply_mapping(mapping, leaves(), config(), apply_options(choice_.model.runtime));
  append(result_.findings, std::move(applied.findings));
  result_.passed_through = applied.passed_through;
  edited_ = applied.edited;
  fired_ = std::move(applied.fired);
  return std::move(applied.tensors);
}

ApplyOptions Planner::apply_options(RuntimeNames runtime) const {
  return {threads_, casts(), std::move(runtime)};
}

/// The config that operations were, or are to be, resolved with.
ModelConfig Planner::config() const {
  if (facts_.config.present() || !facts_.record || facts_.record->config_json.empty()) {
    return facts_.config;
  }
  return ModelConfig::parse(facts_.record->config_json, kProvenanceName);
}

bool Planner::goes_back_by_record() const {
  return facts_.record && facts_.record->layout == "runtime" && !facts_.record->files.empty() &&
         selection_.mapping == "auto" && decoded_.empty();
}

/// The rules that fired, backwards, and the proof that forwards they give what is there.
std::vector<NamedLayout> Planner::go_back_by_rules() {
  const Mapping mapping = mapping_that_fired();
  note_kept_edits();
  std::vector<NamedLayout> targets = apply_rules(mapping.reversed());
  if (!has_errors(result_.findings)) prove_round_trip(mapping, targets);
  return targets;
}

/// Where a record does not have the originals, nothing tells which names the base model's prefix
/// was changed on.
void Planner::note_kept_edits() {
  if (!facts_.record || !facts_.record->model_names) return;
  const ModelNames& names = *facts_.record->model_names;
  if (names.edited == 0) return;
  result_.findings.push_back(
      {Severity::report, "prefix_kept", "", "",
       fmt::format("the base model's prefix '{}' was put on {} names, or taken off, when {} was "
                   "written, which does not say which: they keep the names that they have",
                   names.base_model_prefix, names.edited, kProvenanceName)});
}

Mapping Planner::mapping_that_fired() const {
  if (!facts_.record || facts_.record->layout != "runtime" || selection_.mapping != "auto") {
    return without_prefix_changes();
  }
  return choice_.mapping.with_only(facts_.record->fired);
}

/// Without a record nothing tells whether a prefix was there, or which of several names: they stay
/// as they are.
Mapping Planner::without_prefix_changes() const {
  std::vector<int64_t> kept;
  for (size_t i = 0; i < choice_.mapping.transforms().size(); ++i) {
    if (std::holds_alternative<PrefixChange>(choice_.mapping.transforms()[i])) continue;
    kept.push_back(static_cast<int64_t>(i));
  }
  return choice_.mapping.with_only(kept).without_one_way_renamings();
}

/// The names of the model: those that are known; else, where a record says that the model's tensors
/// are what is there, those that are there.
RuntimeNames Planner::names_of_model() const {
  const RuntimeNames& known = choice_.model.runtime;
  if (known.known() || !facts_.record) return known;
  std::vector<std::string> names;
  for (const NamedLayout& leaf : leaves_) names.push_back(leaf.name);
  return recorded_names(*facts_.record, std::move(names));
}

void Planner::prove_round_trip(const Mapping& mapping, const std::vector<NamedLayout>& targets) {
  MappingResult forward =
      apply_mapping(mapping, targets, config(), apply_options(names_of_model()));
  std::unordered_map<std::string, const NamedLayout*> made;
  for (const NamedLayout& tensor : forward.tensors) made.emplace(tensor.name, &tensor);
  for (const NamedLayout& leaf : leaves()) {
    const auto found = made.find(leaf.name);
    if (found != made.end() && is_same_layout(found->second->layout, leaf.layout)) continue;
    add_error("round_trip", leaf.name,
              fmt::format("tensor '{}' cannot be brought back: mapping '{}' does not make it "
                          "again from the tensors that its reverse gives",
                          leaf.name, mapping.name()));
  }
}

/// The files as they were.
std::vector<NamedLayout> Planner::go_back_by_record() {
  WayBack back = way_back(*facts_.record, whole_.tensors, names_, threads_);
  append(result_.findings, std::move(back.findings));
  result_.passed_through = back.passed_through;
  recorded_dtypes_ = std::move(back.original_dtypes);
  if (!selection_.is_partial() && !has_errors(result_.findings)) {
    result_.original_files = facts_.record->files;
    result_.original_index = facts_.record->index;
  }
  return std::move(back.targets);
}

void Planner::add_error(std::string code, const std::string& tensor, std::string message) {
  result_.findings.push_back({Severity::error, std::move(code), tensor, "", std::move(message)});
}

Conversion with_targets_kept(Conversion conversion, const std::vector<bool>& keep) {
  conversion.program = select_targets(conversion.program, keep);
  if (conversion.spread) {
    std::vector<Sharding> kept;
    for (size_t i = 0; i < keep.size(); ++i) {
      if (keep[i]) kept.push_back(std::move(conversion.spread->shardings[i]));
    }
    conversion.spread->shardings = std::move(kept);
  }
  conversion.original_files.clear();
  conversion.original_index.reset();
  conversion.kept_names.clear();
  conversion.provenance.files.clear();
  conversion.provenance.index.reset();
  return conversion;
}

bool Conversion::is_refused(bool lenient) const noexcept {
  return std::any_of(findings.begin(), findings.end(), [lenient](const Finding& finding) {
    return weightloom::is_refusal(finding, lenient);
  });
}

Conversion plan_conversion(const Syscalls& calls, const Checkpoint& source,
                           const Selection& selection, const Registry& registry, int threads) {
  return Planner(calls, source, selection, registry, threads).plan();
}

}  // namespace weightloom
