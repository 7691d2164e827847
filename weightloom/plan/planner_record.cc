// What a conversion's output says of itself: the provenance record.
#include <algorithm>
#include <iterator>
#include <map>
#include <string_view>
#include <utility>

#include "weightloom/plan/planner_internal.h"
#include "weightloom/plan/way_back_internal.h"
#include "weightloom/safetensors/header.h"

namespace weightloom {
namespace {

/// True if files with these headers hold the targets of the program, each once and no others.
bool have_tensors(const std::vector<OriginalFile>& files, const CopyProgram& program) {
  std::map<std::string_view, const ProgramTarget*> targets;
  for (const ProgramTarget& target : program.targets()) targets.emplace(target.name, &target);
  for (const OriginalFile& file : files) {
    const Header header = Header::parse_alone(file.header_json, file.name);
    for (const HeaderTensor& tensor : header.tensors()) {
      const auto found = targets.find(tensor.name);
      if (found == targets.end() || found->second->dtype != tensor.dtype ||
          found->second->shape != tensor.shape) {
        return false;
      }
      targets.erase(found);
    }
  }
  return targets.empty();
}

}  // namespace

/// The record that the output gets. Of names changed by hand in a layout that stays nothing is
/// claimed.
void Planner::record() {
  const bool renames = !selection_.renames.empty();
  if (!selection_.load_specs.empty()) return record_specs();
  const bool is_whole = !selection_.is_partial() && !changed_by_expectation_;
  if (!converts() && is_whole) keep_names();
  if (!converts() && is_whole) reproduce_split();
  if (!converts() && !renames && facts_.record && is_whole && computed_.empty()) {
    result_.provenance = *facts_.record;
    return record_cast();
  }
  Provenance& record = result_.provenance;
  if (!converts()) {
    record_same_layout(renames);
    const bool keeps_values = casts_.empty() && computed_.empty();
    if (selection_.meshes && !renames && is_whole && keeps_values) keep_headers();
    return;
  }
  record.layout = std::string(to_string(result_.to));
  record.mapping = rules_;
  record.config_json = facts_.config_json;
  if (result_.to == Side::runtime) record_model_names();
  for (size_t i = 0; i < fired_.size() && result_.to == Side::runtime; ++i) {
    if (fired_[i] > 0) record.fired.push_back(static_cast<int64_t>(i));
  }
  if (result_.to == Side::runtime && is_whole) keep_originals();
  record_cast();
}

/// What the rules that ask for the model's names knew, so that the way back can ask again.
void Planner::record_model_names() {
  const RuntimeNames& runtime = choice_.model.runtime;
  if (!runtime.known()) return;
  ModelNames names{runtime.base_model_prefix(), {}, edited_};
  for (const ProgramTarget& target : result_.program.targets()) {
    if (!runtime.has(target.name)) names.unknown.push_back(target.name);
  }
  result_.provenance.model_names = std::move(names);
}

/// Of a layout that stays only what an earlier record says is known, and that of its names.
void Planner::record_same_layout(bool renames) {
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

/// Of tensors that LoadSpecs make no rule tells how they came about.
void Planner::record_specs() {
  result_.original_files.clear();
  result_.original_index.reset();
  result_.provenance.layout = std::string(to_string(Side::unknown));
  result_.provenance.mapping = rules_;
  result_.provenance.config_json = facts_.config_json;
  record_cast();
}

/// Names of what was decoded, by this conversion or by an earlier one; none once it is encoded.
void Planner::record_decoded() {
  auto& decoded = result_.provenance.decoded;
  if (selection_.quantize) decoded.clear();
  if (decoded_.empty() || selection_.quantize) return;
  decoded.insert(decoded.end(), decoded_.begin(), decoded_.end());
  std::ranges::sort(decoded);
  const auto again = std::ranges::unique(decoded);
  decoded.erase(again.begin(), again.end());
}

/// The record says that dtypes changed only if some did.
void Planner::record_cast() {
  record_decoded();
  const auto targets = result_.program.targets();
  const bool changed = std::any_of(targets.begin(), targets.end(),
                                   [](const ProgramTarget& target) { return target.has_casts; });
  auto& recorded = result_.provenance.casts;
  if (changed) recorded.insert(recorded.end(), casts_.begin(), casts_.end());
}

void Planner::keep_names() {
  if (has_errors(result_.findings) || source_.is_sharded() || !computed_.empty()) return;
  for (const auto& name : names_) result_.kept_names.push_back(*name);
}

/// Puts the renames before the record's rules, so that the record leads from the
/// original names. False if one mapping cannot say both.
bool Planner::record_renames() {
  if (selection_.renames.empty()) return true;
  std::optional<Mapping> both = with_renames(selection_.renames, rules_);
  if (!both || !leads_to_targets(*both, choice_.model.runtime)) return false;
  Provenance& record = result_.provenance;
  record.mapping = *std::move(both);
  const auto added = static_cast<int64_t>(selection_.renames.size());
  for (int64_t& place : record.fired) place += added;
  for (int64_t i = added; i-- > 0;) record.fired.insert(record.fired.begin(), i);
  return true;
}

/// True if `mapping` makes of the source's own names what the program makes, of the same sources.
bool Planner::leads_to_targets(const Mapping& mapping, const RuntimeNames& runtime) const {
  std::vector<NamedLayout> originals = leaves();
  for (size_t i = 0; i < originals.size(); ++i) originals[i].name = whole_.tensors[i].name;
  const MappingResult applied =
      apply_mapping(mapping, std::move(originals), config(), apply_options(runtime));
  if (has_errors(applied.findings)) return false;
  const auto same = [](const NamedLayout& made, const ProgramTarget& target) {
    if (made.name != target.name || made.layout.shape() != target.shape) return false;
    if (made.layout.regions().empty() || target.regions.empty()) return true;
    return made.layout.regions().front().source == target.regions.front().source;
  };
  return std::ranges::equal(applied.tensors, result_.program.targets(), same);
}

/// What the record of a sharded folder tells of the files that its whole tensors stood in, unless
/// it tells of another layout.
bool Planner::knows_split() const {
  return source_.is_sharded() && facts_.record && facts_.record->layout != "runtime" &&
         !facts_.record->files.empty();
}

/// Whole tensors go back into the files that they came from, where these hold the same tensors.
void Planner::reproduce_split() {
  if (!knows_split() || selection_.meshes || has_errors(result_.findings)) return;
  if (!have_tensors(facts_.record->files, result_.program)) return;
  result_.original_files = facts_.record->files;
  result_.original_index = facts_.record->index;
}

/// The names of the model, as the way back will know them.
RuntimeNames Planner::names_of_record() const {
  std::vector<std::string> names;
  for (const ProgramTarget& target : result_.program.targets()) names.push_back(target.name);
  return recorded_names(result_.provenance, std::move(names));
}

/// The source's headers and index, verbatim, when its files hold exactly the tensors converted.
void Planner::keep_originals() {
  if (!computed_.empty()) return;  // the originals' bytes are not to be had again
  if (knows_split()) {
    result_.provenance.files = facts_.record->files;
    result_.provenance.index = facts_.record->index;
    return;
  }
  if (source_.is_sharded()) return;
  size_t tensors = 0;
  for (const CheckpointFile& file : source_.files()) tensors += file.header.tensors().size();
  if (tensors != source_.tensors().size() || has_errors(result_.findings)) return;
  if (!record_renames()) return;
  // The way back asks what the record knows of the model's names; it must come to the same.
  if (edited_ > 0 && !leads_to_targets(result_.provenance.mapping, names_of_record())) return;
  keep_headers();
}

void Planner::keep_headers() {
  if (source_.is_sharded()) return;
  for (const CheckpointFile& file : source_.files()) {
    result_.provenance.files.push_back({file.name, file.header.json()});
  }
  result_.provenance.index = source_.index();
}

}  // namespace weightloom
