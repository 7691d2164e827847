#include "weightloom/cli/plan_text.h"

#include <algorithm>

#include <fmt/format.h>

#include "weightloom/base/byte_size.h"
#include "weightloom/cli/finding_output.h"
#include "weightloom/cli/quantity.h"
#include "weightloom/cli/table.h"
#include "weightloom/cli/tensor_groups.h"

namespace weightloom::cli {
namespace {

constexpr size_t kMostGroups = 12;
constexpr size_t kMostRankRows = 16;

/// The layout of the result, and the rules that lead there.
std::string to_text(const Conversion& conversion) {
  const std::string layout = conversion.to == Side::unknown
                                 ? "the same layout"
                                 : fmt::format("{} layout", to_string(conversion.to));
  const auto& names = conversion.provenance.model_names;
  if (conversion.mapping == "plain" && names && names->edited > 0) {
    return layout + " (no rule but the base model's prefix)";
  }
  if (conversion.mapping == "plain") return layout + " (this model type needs no mapping)";
  if (conversion.mapping == "none") return layout + " (no mapping)";
  return fmt::format("{} (mapping {})", layout, conversion.mapping);
}

std::string from_text(const PlanReport& plan) {
  const std::string layout = plan.conversion.from == Side::unknown
                                 ? "layout unknown"
                                 : fmt::format("{} layout", to_string(plan.conversion.from));
  return fmt::format(
      "{} ({}, {})", layout, count_text(plan.source_tensors, "tensor"),
      count_text(static_cast<int64_t>(plan.conversion.program.files().size()), "file"));
}

std::string targets_text(const Conversion& conversion) {
  std::string text = fmt::to_string(conversion.program.targets().size());
  if (conversion.renamed > 0) text += fmt::format(", {} renamed", conversion.renamed);
  if (conversion.deselected > 0) text += fmt::format(", {} left out", conversion.deselected);
  if (conversion.passed_through > 0) {
    text += fmt::format("; {} matched by no rule", count_text(conversion.passed_through, "tensor"));
  }
  return text;
}

/// "3 targets to BF16", or nothing where no dtype changes.
std::string casts_text(const Conversion& conversion) {
  const auto targets = conversion.program.targets();
  const auto count = std::count_if(targets.begin(), targets.end(),
                                   [](const ProgramTarget& target) { return target.has_casts; });
  if (count == 0 || !conversion.config.dtype) return "";
  return fmt::format("{} to {}", count_text(count, "target"), to_string(*conversion.config.dtype));
}

/// "lm_head.weight = model.embed_tokens.weight", or nothing where nothing is tied.
std::string tied_text(const Conversion& conversion) {
  if (conversion.tied.empty()) return "";
  const TiedName& first = conversion.tied.front();
  const size_t others = conversion.tied.size() - 1;
  return fmt::format("{} = {}{}", printable(first.name), printable(first.same_as),
                     others == 0 ? "" : fmt::format(" and {} more", others));
}

/// "fsdp=4,tp=2: 8 ranks", or nothing without a mesh.
std::string mesh_text(const PlanReport& plan) {
  if (!plan.conversion.spread) return "";
  const MeshSet& meshes = plan.conversion.spread->meshes;
  std::string text = fmt::format("{}: {}", to_string(meshes), count_text(meshes.size(), "rank"));
  if (plan.ranks.size() == 1 && meshes.size() > 1) {
    text += fmt::format(", of which rank {}", plan.ranks.front().rank);
  }
  return text;
}

std::string disk_text(const PlanReport& plan) {
  const bool fits = plan.disk_bytes_needed <= plan.disk_bytes_free;
  return fmt::format("{} needed, {} free{}", format_byte_size(plan.disk_bytes_needed),
                     format_byte_size(plan.disk_bytes_free),
                     fits ? "" : ": too little where the source stands");
}

std::string summary_text(const PlanReport& plan) {
  const Cost& cost = plan.cost;
  Table table({Align::left, Align::left});
  table.add({"from", from_text(plan)});
  table.add({"to", printable(to_text(plan.conversion))});
  const std::string mesh = mesh_text(plan);
  if (!mesh.empty()) table.add({"mesh", printable(mesh)});
  table.add({"targets", targets_text(plan.conversion)});
  const std::string casts = casts_text(plan.conversion);
  if (!casts.empty()) table.add({"casts", casts});
  const std::string tied = tied_text(plan.conversion);
  if (!tied.empty()) table.add({"tied", tied});
  table.add({"needed", format_byte_size(cost.bytes_needed)});
  table.add({"read", fmt::format("{} from {} (×{:.2f})", format_byte_size(cost.bytes_read),
                                 count_text(cost.files, "file"), cost.amplification())});
  table.add({"written", format_byte_size(cost.bytes_written)});
  table.add({"program", fmt::format("{}, {}", count_text(cost.regions, "region"),
                                    count_text(cost.tiles, "tile"))});
  table.add({"memory", format_byte_size(plan.peak_memory_bytes())});
  table.add({"disk", disk_text(plan)});
  return table.text(2);
}

void add_rank_row(Table& table, const std::string& ranks, const RankSummary& summary) {
  table.add({ranks, fmt::to_string(summary.targets), format_byte_size(summary.bytes_written),
             format_byte_size(summary.bytes_read), fmt::format("×{:.2f}", summary.amplification()),
             fmt::to_string(summary.regions), fmt::to_string(summary.files)});
}

/// Rows of ranks that are not alike; of very many only those at the ends.
std::string ranks_text(const PlanReport& plan) {
  if (plan.ranks.empty()) return "";
  Table table({Align::left, Align::right, Align::right, Align::right, Align::right, Align::right,
               Align::right});
  table.add({"rank", "targets", "bytes", "read", "×", "regions", "files"});
  const std::vector<AlikeRanks> folded = fold_ranks(plan.ranks);
  if (folded.size() <= kMostRankRows) {
    for (const AlikeRanks& alike : folded) add_rank_row(table, alike.text(), alike.summary);
    return table.text(2);
  }
  for (const NotableRank& notable : notable_ranks(plan.ranks)) {
    add_rank_row(table, fmt::format("{}: {}", notable.what, notable.summary.rank), notable.summary);
  }
  return table.text(2) + fmt::format("  of {} ranks; --json lists all\n", plan.ranks.size());
}

/// What holds for all ranks at once.
std::string together_text(const PlanReport& plan) {
  if (plan.ranks.size() < 2) return "";
  int64_t apart = 0;
  for (const RankSummary& summary : plan.ranks) apart += summary.bytes_read;
  std::string text = fmt::format("  together {} read in one process, {} by ranks apart\n",
                                 format_byte_size(plan.cost.bytes_read), format_byte_size(apart));
  if (!plan.is_refused() && !plan.conversion.spread->is_part) {
    text += fmt::format("  proved: the parts of {} make up each target, exactly once\n",
                        count_text(static_cast<int64_t>(plan.ranks.size()), "rank"));
  }
  return text;
}

bool stays_as_it_is(const ProgramTarget& target, const std::vector<std::string_view>& sources) {
  return !target.has_casts && sources.size() == 1 && sources.front() == target.name;
}

std::string group_text(const TensorGroup& group) {
  const std::string times = times_text(group.name.count());
  std::string text =
      fmt::format("  {}  {}{}{}\n", printable(group.name.text()),
                  type_text(group.dtype, group.shape), times.empty() ? "" : "  ", times);
  for (const FoldedName& source : group.sources) {
    text += fmt::format("    from {}\n", printable(source.text()));
  }
  return text;
}

/// What becomes of names and dtypes, folded.
std::string names_text(const CopyProgram& program) {
  TensorGroups changed;
  int64_t kept = 0;
  for (const ProgramTarget& target : program.targets()) {
    const auto sources = source_names(program, target);
    if (stays_as_it_is(target, sources)) {
      ++kept;
    } else {
      changed.add(target.name, target.dtype, target.shape, target.size_bytes, sources);
    }
  }
  const auto& groups = changed.groups();
  std::string text;
  for (size_t i = 0; i < std::min(groups.size(), kMostGroups); ++i) text += group_text(groups[i]);
  if (groups.size() > kMostGroups) {
    text += fmt::format("  and {} more patterns; --json lists all targets\n",
                        groups.size() - kMostGroups);
  }
  if (kept > 0) text += fmt::format("  {} as in the source\n", count_text(kept, "target"));
  return text;
}

}  // namespace

PlanWords words_of(const PlanReport& plan) {
  return {from_text(plan), to_text(plan.conversion), mesh_text(plan)};
}

std::string plan_text(const PlanReport& plan, const Terminal& on) {
  std::string text = styled(on, Style::bold, printable(plan.source)) + "\n";
  text += summary_text(plan);
  const std::string ranks = ranks_text(plan);
  if (!ranks.empty()) text += "\n" + ranks + together_text(plan);
  const std::string names = names_text(plan.conversion.program);
  if (!names.empty()) text += "\n" + names;
  const auto& findings = plan.conversion.findings;
  if (!findings.empty()) text += "\n" + findings_text(findings, plan.lenient, on);
  return text;
}

}  // namespace weightloom::cli
