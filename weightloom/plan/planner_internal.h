// The steps from a checkpoint and a selection to a program. Private to the room.
#pragma once

#include <map>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "weightloom/mapping/apply.h"
#include "weightloom/mapping/quantised_tensors.h"
#include "weightloom/plan/compile.h"
#include "weightloom/plan/conversion.h"
#include "weightloom/plan/mapping_choice.h"
#include "weightloom/sharding/tp_plan.h"
#include "weightloom/sharding/whole_tensors.h"

namespace weightloom {

/// True if a finding is an error, whatever the caller lets pass.
bool has_errors(const std::vector<Finding>& findings);

/// A tensor of a checkpoint, as a program reads it.
ProgramSource stored_source(const StoredTensor& tensor);

class Planner {
 public:
  Planner(const Syscalls& calls, const Checkpoint& source, const Selection& selection,
          const Registry& registry, int threads)
      : calls_(calls),
        source_(source),
        selection_(selection),
        registry_(registry),
        threads_(threads) {}

  Conversion plan() &&;

 private:
  // conversion.cc: names and layouts
  void choose_rules();
  void rename_sources();
  std::vector<NamedLayout> leaves_of_source() const;
  const std::vector<NamedLayout>& leaves() const { return leaves_; }
  Side side_of_source() const;
  void resolve_sides();
  bool converts() const { return selection_.to && result_.to != result_.from; }
  bool casts() const {
    return selection_.dtype || !computed_.empty() ||
           (selection_.expected && selection_.expected->cast);
  }
  std::vector<NamedLayout> make_targets();
  std::vector<NamedLayout> apply_rules(const Mapping& mapping);
  ApplyOptions apply_options(RuntimeNames runtime) const;
  ModelConfig config() const;
  bool goes_back_by_record() const;
  std::vector<NamedLayout> go_back_by_rules();
  void note_kept_edits();
  Mapping mapping_that_fired() const;
  Mapping without_prefix_changes() const;
  RuntimeNames names_of_model() const;
  RuntimeNames buffers() const;
  void prove_round_trip(const Mapping& mapping, const std::vector<NamedLayout>& targets);
  std::vector<NamedLayout> go_back_by_record();
  void add_error(std::string code, const std::string& tensor, std::string message);

  // planner_targets.cc: what becomes of the targets
  void cast_targets(std::vector<NamedLayout>& targets);
  void note_changed_dtypes(const std::vector<NamedLayout>& targets);
  void tie(std::vector<NamedLayout>& targets);
  void name_after_wanted(std::vector<NamedLayout>& targets);
  std::vector<NamedLayout> fit(std::vector<NamedLayout> targets);
  void leave_out(SourceId source);
  void compile_targets(std::vector<NamedLayout> targets);
  bool is_known_to_be_left_out(const Finding& finding) const;
  MayCast may_cast() const;
  MayCast may_cast_of(std::span<const NamedLayout> targets) const;
  void select(CopyProgram program);
  void keep_ties_of_targets();
  std::vector<ProgramFile> program_files() const;
  std::vector<ProgramSource> stored_sources() const;
  std::vector<ProgramSource> whole_sources() const;
  std::vector<Layout> whole_layouts() const;

  // planner_quantised.cc: what is decoded before the rules and encoded after them
  void decode_leaves();
  std::string bytes_of_leaf(const NamedLayout& leaf) const;
  void decode(const QuantisedTensor& tensor, std::vector<NamedLayout>& decoded);
  SourceId add_computed(ProgramSource source);
  bool is_decoded(const NamedLayout& target) const;
  DType dtype_of_decoded() const;
  bool names_of_decoded_hold() const;
  ModelConfig config_to_encode_by() const;
  void encode_targets_of(std::vector<NamedLayout>& targets);
  void encode(const EncodedTensor& tensor, const NamedLayout& target,
              std::vector<NamedLayout>& made);

  // planner_spread.cc: which rank holds what of the targets
  void spread();
  std::vector<Sharding> shardings_of_targets();

  // planner_modules.cc: what lists in config.json are to name
  void rename_modules();

  // planner_scales.cc: scales that stay beside their codes
  void spread_scales(Spread& spread);
  void refuse_cut_of_packed(const Spread& spread);
  void spread_scales_of(const ProgramTarget& codes, const Sharding& sharding,
                        const ProgramTarget& scales, const MeshSet& meshes, Sharding& made);
  std::optional<BlockShape> block_of_scales(const ProgramTarget& codes,
                                            const ProgramTarget& scales) const;
  BlockShape declared_block(const std::string& codes, const std::string& scales) const;

  // planner_specs.cc: targets that LoadSpecs make
  std::vector<NamedLayout> apply_specs(const std::vector<NamedLayout>& tensors);
  MeshSet meshes_of_specs() const;
  Spread spread_of_specs();
  TpPlan parallel_plan() const;

  // planner_record.cc: what the output is to say of itself
  void record();
  void record_same_layout(bool renames);
  void record_specs();
  void record_cast();
  void record_decoded();
  void keep_names();
  bool record_renames();
  bool leads_to_targets(const Mapping& mapping, const RuntimeNames& runtime) const;
  void record_model_names();
  RuntimeNames names_of_record() const;
  bool knows_split() const;
  void reproduce_split();
  void keep_originals();
  void keep_headers();

  const Syscalls& calls_;
  const Checkpoint& source_;
  const Selection& selection_;
  const Registry& registry_;
  const int threads_;
  WholeTensors whole_;  // of the source
  SideFacts facts_;
  MappingChoice choice_;
  Mapping rules_;                                  // what leads to the runtime side
  std::vector<std::optional<std::string>> names_;  // of the source's tensors, renamed
  std::vector<NamedLayout> leaves_;                // what the rules are given
  std::vector<NodeLayouts> nodes_;                 // what decodes and encodes
  std::vector<ProgramSource> computed_;            // their results; ids follow the whole tensors'
  std::vector<std::string> decoded_;               // names of leaves that were decoded
  std::map<std::string, BlockShape> encoded_blocks_;  // of scales that are made, by their name
  std::vector<int64_t> fired_;
  int64_t edited_ = 0;
  std::vector<CastRule> casts_;          // the caller's: one, or none
  std::vector<DType> recorded_dtypes_;   // of the original's tensors, going back by record
  std::set<std::string> left_out_;       // sources of targets that no one expects
  bool changed_by_expectation_ = false;  // targets are left out or cast as `expected` says
  Conversion result_;
};

}  // namespace weightloom
