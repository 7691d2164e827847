// What a refused conversion says: its first fault, how many more there are, and what to do about
// it.
#include <algorithm>
#include <array>
#include <string>
#include <string_view>
#include <vector>

#include <fmt/format.h>

#include "weightloom/plan/compile.h"
#include "weightloom/plan/conversion.h"

namespace weightloom {
namespace {

struct NextStep {
  std::string_view code;
  std::string_view text;
};

constexpr std::string_view kMendCheckpoint =
    "complete the checkpoint (fetch missing or stale shards again), then run again";
constexpr std::string_view kMendOrCorrect =
    "complete the checkpoint (fetch missing or stale shards again), or correct the mapping's sizes";
constexpr std::string_view kCorrectMapping =
    "choose other rules with --mapping NAME|FILE.json|none, or correct the mapping file";
constexpr std::string_view kCorrectSpecs =
    "correct the LoadSpecs, or choose with --to hub|runtime the layout whose tensors they name";
constexpr std::string_view kLeaveRecord =
    "name the rules with --mapping NAME to go by them alone, without the record";

constexpr std::string_view kCorrectPlacements =
    "correct the placements, or the sizes of the mesh; plan shows what they are to fit";
constexpr std::string_view kMendParts =
    "complete the sharded folder: the file of each rank as layout.json says";

constexpr std::string_view kCorrectQuantisation =
    "correct quantization_config in config.json, or keep the codes without --dequantize";

constexpr std::array kNextSteps = {
    NextStep{"missing_source", kMendCheckpoint},
    NextStep{"index_gap", kMendCheckpoint},
    NextStep{"count_mismatch", kMendCheckpoint},
    NextStep{"shape_mismatch", kMendOrCorrect},
    NextStep{"dtype_mismatch",
             "bring floating-point tensors to one dtype with --dtype, or mend the checkpoint"},
    NextStep{"companion_refused",
             "decode them with --dequantize, keep the tensors as they are with --to same, or "
             "declare the blocks of their scales under "
             "\"companions\" in a mapping of your own"},
    NextStep{"duplicate_target",
             "change the --rename or the mapping that makes both, or leave one out of the source"},
    NextStep{"rename_unmatched",
             "correct the pattern (inspect shows the names), or leave that --rename out"},
    NextStep{"not_in_record", kLeaveRecord},
    NextStep{"round_trip", kLeaveRecord},
    NextStep{"inside_byte", "leave that tensor out with --exclude, or whole with other rules"},
    NextStep{"inside_block", "cut at whole blocks with --placements FILE, or give --dequantize"},
    NextStep{"packed_cut",
             "leave packed tensors whole with --placements FILE, or give --dequantize"},
    NextStep{"scale_missing", kMendCheckpoint},
    NextStep{"scale_alone", kMendCheckpoint},
    NextStep{"scale_grid", kCorrectQuantisation},
    NextStep{"unknown_scheme", kCorrectQuantisation},
    NextStep{"unknown_companion", kCorrectQuantisation},
    NextStep{"encode_refused", "leave it as it is with --keep-dtype NAME, or choose another form"},
    NextStep{"encode_nothing", "leave --quantize out; docs/quantisation.md says what it takes"},
    NextStep{"missing_key", kCorrectSpecs},
    NextStep{"key_used_twice", kCorrectSpecs},
    NextStep{"spec_shape_mismatch", kCorrectSpecs},
    NextStep{"bad_spec", kCorrectSpecs},
    NextStep{"bad_sharding", kCorrectPlacements},
    NextStep{"bad_partition", kCorrectPlacements},
    NextStep{"no_placement", kCorrectPlacements},
    NextStep{"bad_style", "change the sizes of the mesh, or say otherwise with --placements FILE"},
    NextStep{"nothing_cut", "give the class with --architecture, or the plan with --tp-plan FILE"},
    NextStep{"missing_rank", kMendParts},
    NextStep{"missing_part", kMendParts},
    NextStep{"unknown_part", kMendParts},
    NextStep{"part_mismatch", kMendParts},
    NextStep{"nothing_selected", "loosen --include or --exclude; plan --json lists all targets"},
};

std::string_view next_step_for(std::string_view code) {
  const auto found = std::ranges::find(kNextSteps, code, &NextStep::code);
  return found == kNextSteps.end() ? kCorrectMapping : found->text;
}

}  // namespace

Error refusal_of(const std::vector<Finding>& findings, bool lenient) {
  std::vector<const Finding*> refusals;
  for (const Finding& finding : findings) {
    if (is_refusal(finding, lenient)) refusals.push_back(&finding);
  }
  if (refusals.empty()) return Error(ErrorCode::plan, "refused", "", findings);
  const Finding& first = *refusals.front();
  std::string message = first.message;
  if (refusals.size() > 1) message += fmt::format(" (and {} more)", refusals.size() - 1);
  return Error(ErrorCode::plan, message, std::string(next_step_for(first.code)), findings);
}

}  // namespace weightloom
