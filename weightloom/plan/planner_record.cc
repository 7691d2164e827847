// What a conversion's output says of itself: the provenance record.
#include <algorithm>
#include <iterator>
#include <utility>

#include "weightloom/plan/planner_internal.h"

namespace weightloom {

/// The record that the output gets. Of names changed by hand in a layout that stays nothing is
/// claimed.
void Planner::record() {
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
  record.base_model_prefix = choice_.model.runtime.base_model_prefix();
  for (size_t i = 0; i < fired_.size() && result_.to == Side::runtime; ++i) {
    if (fired_[i] > 0) record.fired.push_back(static_cast<int64_t>(i));
  }
  const bool is_whole = !selection_.is_partial() && !changed_by_expectation_;
  if (converts() && result_.to == Side::runtime && is_whole) keep_originals();
  record_cast();
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

/// The record says that dtypes changed only if some did.
void Planner::record_cast() {
  const auto targets = result_.program.targets();
  const bool changed = std::any_of(targets.begin(), targets.end(),
                                   [](const ProgramTarget& target) { return target.has_casts; });
  auto& recorded = result_.provenance.casts;
  if (changed) recorded.insert(recorded.end(), casts_.begin(), casts_.end());
}

void Planner::keep_names() {
  if (has_errors(result_.findings)) return;
  for (const auto& name : names_) result_.kept_names.push_back(*name);
}

/// Puts the renames before the record's rules, so that the record leads from the
/// original names. False if one mapping cannot say both.
bool Planner::record_renames() {
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
bool Planner::leads_to_targets(const Mapping& mapping) const {
  std::vector<NamedLayout> originals = leaves();
  for (size_t i = 0; i < originals.size(); ++i) originals[i].name = source_.tensors()[i].name;
  const MappingResult applied =
      apply_mapping(mapping, std::move(originals), config(), apply_options(choice_.model.runtime));
  if (has_errors(applied.findings)) return false;
  return std::ranges::equal(applied.tensors, result_.program.targets(), {}, &NamedLayout::name,
                            &ProgramTarget::name);
}

/// The source's headers and index, verbatim, when its files hold exactly the tensors converted.
void Planner::keep_originals() {
  size_t tensors = 0;
  for (const CheckpointFile& file : source_.files()) tensors += file.header.tensors().size();
  if (tensors != source_.tensors().size() || has_errors(result_.findings)) return;
  if (!record_renames()) return;
  for (const CheckpointFile& file : source_.files()) {
    result_.provenance.files.push_back({file.name, file.header.json()});
  }
  result_.provenance.index = source_.index();
}

}  // namespace weightloom
