// The flags that several verbs share, bound to the values they fill.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "weightloom/base/syscalls.h"
#include "weightloom/cli/command.h"
#include "weightloom/cli/progress_bar.h"
#include "weightloom/execute/convert.h"
#include "weightloom/plan/selection.h"

namespace weightloom::cli {

/// What --memory-budget and --threads say; the system's defaults where they do not.
struct RunFlags {
  std::optional<int64_t> memory_budget_bytes;
  std::optional<int> threads;

  RunOptions run_options(const Syscalls& calls) const;
};

/// What --rank says; nothing: all ranks.
struct RankFlag {
  std::optional<int64_t> rank;
};

/// --json and --quiet.
struct PrintFlags {
  bool json = false;
  bool quiet = false;
};

/// A positional path that must be given.
void add_path(CLI::App& app, const std::string& name, std::string& path,
              const std::string& meaning);
/// --from --to --mapping --architecture --rename --include --exclude --dtype --keep-dtype
/// --dequantize --quantize --expect --mesh --tp-plan --placements --load-specs --lenient.
void add_selection_flags(CLI::App& app, Selection& selection);
/// --rank.
void add_rank_flag(CLI::App& app, RankFlag& flag);
/// The ranks that were asked for; none without a mesh.
/// Errors: usage if there is no mesh, or no such rank.
std::vector<int64_t> wanted_ranks(const Conversion& conversion, const RankFlag& flag);
/// The conversion for the rank that was asked for, or for all; as it is without a mesh.
/// Errors: usage if there is no mesh, or no such rank.
Conversion for_rank(Conversion conversion, const RankFlag& flag);
/// --max-shard-size --layout-from --overwrite --resume --checksums.
void add_output_flags(CLI::App& app, OutputOptions& output);
/// --memory-budget --threads.
void add_run_flags(CLI::App& app, RunFlags& flags);
void add_json_flag(CLI::App& app, PrintFlags& flags);
void add_quiet_flag(CLI::App& app, PrintFlags& flags);

}  // namespace weightloom::cli
