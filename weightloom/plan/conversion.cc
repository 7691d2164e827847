#include "weightloom/plan/conversion.h"

#include <algorithm>
#include <iterator>
#include <map>
#include <unordered_map>

#include <fmt/format.h>

#include "weightloom/layout/operations.h"
#include "weightloom/layout/relation.h"
#include "weightloom/mapping/apply.h"
#include "weightloom/plan/cast_rules_internal.h"
#include "weightloom/plan/compile.h"
#include "weightloom/plan/way_back_internal.h"

namespace weightloom {
namespace {

template <typename T>
void append(std::vector<T>& to, std::vector<T> from) {
  to.insert(to.end(), std::make_move_iterator(from.begin()), std::make_move_iterator(from.end()));
}

bool has_errors(const std::vector<Finding>& findings) {
  return std::any_of(findings.begin(), findings.end(),
                     [](const Finding& finding) { return finding.severity == Severity::error; });
}

class Planner {
 public:
  Planner(const Syscalls& calls, const Checkpoint& source, const Selection& selection,
          const Registry& registry, int threads)
      : calls_(calls),
        source_(source),
        selection_(selection),
        registry_(registry),
        threads_(threads) {}

  Conversion plan() && {
    facts_ = read_side_facts(calls_, source_, registry_.operations());
    if (!selection_.architecture.empty()) facts_.architecture = selection_.architecture;
    result_.findings.assign(source_.findings().begin(), source_.findings().end());
    choice_ = choose_mapping(calls_, source_, facts_, selection_.mapping, registry_,
                             selection_.to.has_value());
    append(result_.findings, choice_.findings);
    result_.mapping = choice_.label;
    rules_ = choice_.mapping;
    rename_sources();
    resolve_sides();
    result_.metadata = {{"format", "pt"}};
    if (selection_.dtype) casts_.push_back({*selection_.dtype, selection_.keep_dtype});
    result_.dtype = selection_.dtype;
    std::vector<NamedLayout> targets = make_targets();
    Casting casting(casts_, rules_, targets);
    for (NamedLayout& target : targets) target.dtype = casting.dtype_of(target);
    if (!result_.original_files.empty()) note_changed_dtypes(targets);
    compile_targets(std::move(targets));
    record();
    return std::move(result_);
  }

 private:
  void rename_sources() {
    const std::vector<std::string_view> names = names_of(source_);
    RenamedNames renamed = apply_renames(selection_.renames, names, threads_);
    append(result_.findings, std::move(renamed.findings));
    names_ = std::move(renamed.names);
    for (size_t i = 0; i < names.size(); ++i) result_.renamed += names_[i] != names[i] ? 1 : 0;
  }

  /// The source's tensors as they are, under their new names. One that lost its name to another
  /// (which is refused) is left out.
  std::vector<NamedLayout> leaves() const {
    std::vector<NamedLayout> leaves;
    leaves.reserve(names_.size());
    for (size_t i = 0; i < names_.size(); ++i) {
      const StoredTensor& tensor = source_.tensors()[i];
      if (!names_[i]) continue;
      leaves.push_back(
          {*names_[i], tensor.dtype, identity(static_cast<SourceId>(i), tensor.shape)});
    }
    return leaves;
  }

  Side side_of_source() const {
    std::vector<std::string_view> names;
    names.reserve(names_.size());
    for (const auto& name : names_) names.push_back(name ? std::string_view(*name) : "");
    return detect_side(names, facts_, choice_.mapping);
  }

  void resolve_sides() {
    result_.from = selection_.from;
    if (result_.from == Side::unknown) {
      result_.from = side_of_source();
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

  bool converts() const { return selection_.to && result_.to != result_.from; }

  std::vector<NamedLayout> make_targets() {
    if (!converts()) {
      result_.passed_through = static_cast<int64_t>(source_.tensors().size()) - result_.renamed;
      return leaves();
    }
    if (result_.to == Side::runtime) {
      if (choice_.with_legacy) rules_ = rules_.followed_by(registry_.legacy());
      return apply_rules(rules_);
    }
    if (goes_back_by_record()) return go_back_by_record();
    return go_back_by_rules();
  }

  std::vector<NamedLayout> apply_rules(const Mapping& mapping) {
    MappingResult applied =
        apply_mapping(mapping, leaves(), config(), apply_options(choice_.runtime));
    append(result_.findings, std::move(applied.findings));
    result_.passed_through = applied.passed_through;
    fired_ = std::move(applied.fired);
    return std::move(applied.tensors);
  }

  ApplyOptions apply_options(RuntimeNames runtime) const {
    return {threads_, selection_.dtype.has_value(), std::move(runtime)};
  }

  /// The names of the source, which a way back starts from, as those of the model.
  RuntimeNames names_there() const {
    std::vector<std::string> names;
    for (const auto& name : names_) {
      if (name) names.push_back(*name);
    }
    return RuntimeNames::exactly(std::move(names), choice_.runtime.base_model_prefix());
  }

  /// The config that operations were, or are to be, resolved with.
  ModelConfig config() const {
    if (facts_.config.present() || !facts_.record || facts_.record->config_json.empty()) {
      return facts_.config;
    }
    return ModelConfig::parse(facts_.record->config_json, kProvenanceName);
  }

  bool goes_back_by_record() const {
    return facts_.record && facts_.record->layout == "runtime" && !facts_.record->files.empty() &&
           selection_.mapping == "auto";
  }

  /// The rules that fired, backwards, and the proof that forwards they give what is there.
  std::vector<NamedLayout> go_back_by_rules() {
    const Mapping mapping = mapping_that_fired();
    std::vector<NamedLayout> targets = apply_rules(mapping.reversed());
    if (!has_errors(result_.findings)) prove_round_trip(mapping, targets);
    return targets;
  }

  Mapping mapping_that_fired() const {
    if (!facts_.record || facts_.record->layout != "runtime" || selection_.mapping != "auto") {
      return without_prefix_changes();
    }
    return choice_.mapping.with_only(facts_.record->fired);
  }

  /// Without a record nothing tells whether a prefix was there: it stays as it is.
  Mapping without_prefix_changes() const {
    std::vector<int64_t> kept;
    for (size_t i = 0; i < choice_.mapping.transforms().size(); ++i) {
      if (std::holds_alternative<PrefixChange>(choice_.mapping.transforms()[i])) continue;
      kept.push_back(static_cast<int64_t>(i));
    }
    return choice_.mapping.with_only(kept);
  }

  void prove_round_trip(const Mapping& mapping, const std::vector<NamedLayout>& targets) {
    MappingResult forward = apply_mapping(mapping, targets, config(), apply_options(names_there()));
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

  /// True if each element of `made` comes from the same place of the leaf's source: then both
  /// sides of a region begin at one offset and move alike along every axis.
  static bool is_same_layout(const Layout& made, const Layout& leaf) {
    if (made.shape() != leaf.shape()) return false;
    const SourceId source = leaf.regions().empty() ? 0 : leaf.regions().front().source;
    return std::ranges::all_of(made.regions(), [&](const Region& region) {
      return region.source == source && region.source_offset == region.target_offset &&
             std::ranges::all_of(region.axes, [](const Axis& axis) {
               return axis.source_stride == axis.target_stride;
             });
    });
  }

  /// The files as they were.
  std::vector<NamedLayout> go_back_by_record() {
    WayBack back = way_back(*facts_.record, source_, names_, threads_);
    append(result_.findings, std::move(back.findings));
    result_.passed_through = back.passed_through;
    recorded_dtypes_ = std::move(back.original_dtypes);
    if (!selection_.is_partial() && !has_errors(result_.findings)) {
      result_.original_files = facts_.record->files;
      result_.original_index = facts_.record->index;
    }
    return std::move(back.targets);
  }

  /// Casts since the original: its headers serve only where every dtype is the original's again.
  void note_changed_dtypes(const std::vector<NamedLayout>& targets) {
    ChangedDTypes changed = changed_dtypes(targets, recorded_dtypes_, *facts_.record);
    if (changed.finding) result_.findings.push_back(std::move(*changed.finding));
    if (!changed.any) return;
    result_.original_files.clear();
    result_.original_index.reset();
  }

  void add_error(std::string code, const std::string& tensor, std::string message) {
    result_.findings.push_back({Severity::error, std::move(code), tensor, "", std::move(message)});
  }

  void compile_targets(std::vector<NamedLayout> targets) {
    if (has_errors(result_.findings)) return compile_what_is_sound(std::move(targets));
    std::sort(targets.begin(), targets.end(),
              [](const NamedLayout& a, const NamedLayout& b) { return a.name < b.name; });
    Compiled compiled = compile(program_files(), program_sources(), std::move(targets), may_cast());
    append(result_.findings, std::move(compiled.findings));
    select(std::move(compiled.program));
  }

  /// With errors found already, the rest is compiled only to show it: what its sources lack is
  /// known.
  void compile_what_is_sound(std::vector<NamedLayout> targets) {
    Compiled compiled = compile(program_files(), program_sources(), std::move(targets), may_cast());
    for (Finding& finding : compiled.findings) {
      if (finding.code != "source_not_used") result_.findings.push_back(std::move(finding));
    }
    select(std::move(compiled.program));
  }

  /// Targets that the caller's cast reaches.
  MayCast may_cast() const {
    return [this](const std::string& name) {
      return !casts_.empty() && !is_kept(casts_.front(), name);
    };
  }

  void select(CopyProgram program) {
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

  std::vector<ProgramFile> program_files() const {
    std::vector<ProgramFile> files;
    for (const CheckpointFile& file : source_.files()) {
      files.push_back({file.name, file.path, file.status});
    }
    return files;
  }

  std::vector<ProgramSource> program_sources() const {
    std::vector<ProgramSource> sources;
    sources.reserve(source_.tensors().size());
    for (const StoredTensor& tensor : source_.tensors()) {
      sources.push_back({tensor.name, tensor.dtype, tensor.shape, tensor.file, tensor.offset_bytes,
                         tensor.size_bytes});
    }
    return sources;
  }

  /// The record that the output gets. Of names changed by hand in a layout that stays nothing is
  /// claimed.
  void record() {
    const bool renames = !selection_.renames.empty();
    if (!converts() && !selection_.is_partial()) keep_names();
    if (!converts() && !renames && facts_.record && !selection_.is_partial()) {
      result_.provenance = *facts_.record;
      return record_cast();
    }
    Provenance& record = result_.provenance;
    if (!converts()) return record_same_layout(renames);
    record.layout = std::string(to_string(result_.to));
    record.mapping = rules_;
    record.config_json = facts_.config_json;
    for (size_t i = 0; i < fired_.size() && result_.to == Side::runtime; ++i) {
      if (fired_[i] > 0) record.fired.push_back(static_cast<int64_t>(i));
    }
    if (converts() && result_.to == Side::runtime && !selection_.is_partial()) keep_originals();
    record_cast();
  }

  /// Of a layout that stays only what an earlier record says is known, and that of its names.
  void record_same_layout(bool renames) {
    Provenance& record = result_.provenance;
    if (facts_.record && !renames) {
      record = *facts_.record;
      record.files.clear();
      record.index.reset();
    } else {
      record.layout = std::string(to_string(Side::unknown));
      record.mapping = rules_;
      record.config_json = facts_.config_json;
    }
    record_cast();
  }

  /// The record says that dtypes changed only if some did.
  void record_cast() {
    const auto targets = result_.program.targets();
    const bool changed = std::any_of(targets.begin(), targets.end(),
                                     [](const ProgramTarget& target) { return target.has_casts; });
    if (changed) append(result_.provenance.casts, casts_);
  }

  void keep_names() {
    if (has_errors(result_.findings)) return;
    for (const auto& name : names_) result_.kept_names.push_back(*name);
  }

  /// Puts the renames before the record's rules, so that the record leads from the
  /// original names. False if one mapping cannot say both.
  bool record_renames() {
    if (selection_.renames.empty()) return true;
    std::optional<Mapping> both = with_renames(selection_.renames, rules_);
    if (!both || !leads_to_targets(*both)) return false;
    Provenance& record = result_.provenance;
    record.mapping = *std::move(both);
    const auto added = static_cast<int64_t>(selection_.renames.size());
    for (int64_t& place : record.fired) place += added;
    for (int64_t i = added; i-- > 0;) record.fired.insert(record.fired.begin(), i);
    return true;
  }

  /// True if `mapping` makes of the source's own names what the program makes.
  bool leads_to_targets(const Mapping& mapping) const {
    std::vector<NamedLayout> originals = leaves();
    for (size_t i = 0; i < originals.size(); ++i) originals[i].name = source_.tensors()[i].name;
    const MappingResult applied =
        apply_mapping(mapping, std::move(originals), config(), apply_options(choice_.runtime));
    if (has_errors(applied.findings)) return false;
    return std::ranges::equal(applied.tensors, result_.program.targets(), {}, &NamedLayout::name,
                              &ProgramTarget::name);
  }

  /// The source's headers and index, verbatim, when its files hold exactly the tensors converted.
  void keep_originals() {
    size_t tensors = 0;
    for (const CheckpointFile& file : source_.files()) tensors += file.header.tensors().size();
    if (tensors != source_.tensors().size() || has_errors(result_.findings)) return;
    if (!record_renames()) return;
    for (const CheckpointFile& file : source_.files()) {
      result_.provenance.files.push_back({file.name, file.header.json()});
    }
    result_.provenance.index = source_.index();
  }

  const Syscalls& calls_;
  const Checkpoint& source_;
  const Selection& selection_;
  const Registry& registry_;
  const int threads_;
  SideFacts facts_;
  MappingChoice choice_;
  Mapping rules_;                                  // what leads to the runtime side
  std::vector<std::optional<std::string>> names_;  // of the source's tensors, renamed
  std::vector<int64_t> fired_;
  std::vector<CastRule> casts_;         // the caller's: one, or none
  std::vector<DType> recorded_dtypes_;  // of the original's tensors, going back by record
  Conversion result_;
};

}  // namespace

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
