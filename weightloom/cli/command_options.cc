#include "weightloom/cli/command_options.h"

#include <charconv>
#include <functional>
#include <numeric>
#include <utility>
#include <vector>

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include "weightloom/base/byte_size.h"
#include "weightloom/base/error.h"
#include "weightloom/base/syscalls.h"
#include "weightloom/codec/cast.h"
#include "weightloom/execute/budget.h"
#include "weightloom/sharding/load_specs_json.h"

namespace weightloom::cli {
namespace {

constexpr int kMostThreads = 1024;

/// A flag with a value; `accept` throws Error(usage) for a value that makes no sense.
void add_value(CLI::App& app, const std::string& flag, const std::string& value,
               const std::string& meaning, std::function<void(const std::string&)> accept) {
  const auto named = [flag, accept = std::move(accept)](const std::string& text) {
    try {
      accept(text);
    } catch (const Error& error) {
      throw Error(error.code(), fmt::format("{}: {}", flag, error.what()), error.next_step());
    }
  };
  app.add_option_function<std::string>(flag, named, meaning)->option_text(value);
}

Error wrong_word(const std::string& text, const std::string& words) {
  return Error(ErrorCode::usage, fmt::format("'{}' is none of {}", text, words));
}

Side parse_from(const std::string& text) {
  if (text == "auto") return Side::unknown;
  if (text == "hub") return Side::hub;
  if (text == "runtime") return Side::runtime;
  throw wrong_word(text, "auto, hub, runtime");
}

std::optional<Side> parse_to(const std::string& text) {
  if (text == "same") return std::nullopt;
  if (text == "hub") return Side::hub;
  if (text == "runtime") return Side::runtime;
  throw wrong_word(text, "same, hub, runtime");
}

std::optional<DType> parse_wanted_dtype(const std::string& text) {
  if (text == "keep") return std::nullopt;
  const auto dtype = parse_dtype(text);
  if (dtype && is_castable(*dtype)) return dtype;
  throw wrong_word(text, "keep, BF16, F16, F32, F64");
}

std::optional<EncodeScheme> parse_quantize(const std::string& text) {
  if (text == "keep") return std::nullopt;
  for (const EncodeScheme scheme : {EncodeScheme::fp8_block, EncodeScheme::mxfp4}) {
    if (text == to_string(scheme)) return scheme;
  }
  throw wrong_word(text, "keep, fp8-block, mxfp4");
}

int parse_threads(const std::string& text) {
  int threads = 0;
  const char* end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, threads);
  if (error == std::errc() && stop == end && threads >= 1 && threads <= kMostThreads) {
    return threads;
  }
  throw Error(ErrorCode::usage, fmt::format("'{}' is no number from 1 to {}", text, kMostThreads));
}

/// Nothing for all ranks.
std::optional<int64_t> parse_rank(const std::string& text) {
  if (text == "all") return std::nullopt;
  int64_t rank = 0;
  const char* end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, rank);
  if (error == std::errc() && stop == end && rank >= 0) return rank;
  throw wrong_word(text, "a rank from 0 on, all");
}

void add_globs(CLI::App& app, const std::string& flag, std::vector<std::string>& globs,
               const std::string& meaning) {
  // Without extra arguments one flag takes one value, and "[ab]" is a glob, not a list.
  app.add_option(flag, globs, meaning)->option_text("GLOB")->allow_extra_args(false);
}

/// As add_value, repeatable.
void add_renames(CLI::App& app, Selection& selection) {
  const auto accept = [&selection](const std::vector<std::string>& texts) {
    for (const std::string& text : texts) {
      try {
        selection.renames.push_back(parse_rename(text));
      } catch (const Error& error) {
        throw Error(error.code(), fmt::format("--rename: {}", error.what()), error.next_step());
      }
    }
  };
  app.add_option_function<std::vector<std::string>>(
         "--rename", accept,
         "Replace the leftmost match of REGEX in each name by TEXT,\n"
         "before any mapping; \\1 is a group's text, an empty TEXT\n"
         "removes; repeatable, in order (default: none)")
      ->option_text("REGEX=TEXT")
      ->allow_extra_args(false);
}

/// How targets are spread over ranks.
void add_spread_flags(CLI::App& app, Selection& selection) {
  add_value(app, "--mesh", "AXES",
            "Spread targets over ranks, outermost axis first: fsdp=4,tp=2\n"
            "or 'dense: fsdp=8,tp=4; expert: ep=32'; fsdp cuts dim 0, dp\n"
            "holds replicas, others need placements (default: no ranks)",
            [&selection](const std::string& text) { selection.meshes = MeshSet::parse(text); });
  add_value(app, "--tp-plan", "auto|FILE",
            "Which tensors tp and ep cut: the model's own parallel plan\n"
            "(auto, by the class in config.json), or JSON {NAME: STYLE};\n"
            "of what is left fsdp cuts dim 0 (default: none)",
            [&selection](const std::string& text) { selection.tp_plan = text; });
  add_value(app, "--placements", "FILE",
            "How tensors are spread: JSON [{pattern: GLOB, placements:\n"
            "[{axis, shard: DIM}, ...]}], in carving order, the first\n"
            "match wins (default: none)",
            [&selection](const std::string& text) {
              selection.placements = read_placements(system_calls(), text);
            });
  add_value(app, "--load-specs", "FILE",
            "Make these tensors of the layout's, and what a rank holds of\n"
            "each: JSON [{name, global_hf_keys, global_shape, shards: [{dim,\n"
            "axis}, ...], ...}] over --mesh, or of one rank (default: the\n"
            "layout's own tensors)",
            [&selection](const std::string& text) {
              selection.load_specs = read_load_specs(system_calls(), text);
              if (!selection.load_specs.empty()) return;
              throw Error(ErrorCode::usage, fmt::format("{}: holds no LoadSpec", text));
            });
}

}  // namespace

RunOptions RunFlags::run_options(const Syscalls& calls) const {
  RunOptions options;
  options.threads = threads.value_or(default_threads());
  options.memory_budget_bytes = memory_budget_bytes.value_or(default_memory_budget(calls));
  return options;
}

void add_path(CLI::App& app, const std::string& name, std::string& path,
              const std::string& meaning) {
  app.add_option(name, path, meaning)->required()->option_text(" ");
}

void add_selection_flags(CLI::App& app, Selection& selection) {
  add_value(app, "--from", "auto|hub|runtime",
            "Layout that the source is in (default: auto, by the record\n"
            "weightloom.json, else by the side whose patterns match)",
            [&selection](const std::string& text) { selection.from = parse_from(text); });
  add_value(app, "--to", "same|hub|runtime",
            "Layout wanted; runtime is what a program wants (default: same)",
            [&selection](const std::string& text) { selection.to = parse_to(text); });
  add_value(app, "--mapping", "auto|none|NAME|FILE.json|DIR",
            "Rules between the layouts; those in DIR go before the shipped\n"
            "ones (default: auto, by the class and model_type in\n"
            "config.json)",
            [&selection](const std::string& text) { selection.mapping = text; });
  add_value(app, "--architecture", "CLASS",
            "Class that is to hold the model, such as LlavaModel\n"
            "(default: the first of config.json's architectures)",
            [&selection](const std::string& text) { selection.architecture = text; });
  add_renames(app, selection);
  add_globs(app, "--include", selection.include,
            "Only targets whose name matches; repeatable (default: all)");
  add_globs(app, "--exclude", selection.exclude,
            "No targets whose name matches; repeatable, wins over\n"
            "--include (default: none)");
  add_value(app, "--dtype", "keep|BF16|F16|F32|F64",
            "Cast floating-point targets of 16 bits and more, to nearest\n"
            "even (default: keep)",
            [&selection](const std::string& text) { selection.dtype = parse_wanted_dtype(text); });
  add_globs(app, "--keep-dtype", selection.keep_dtype,
            "No cast or encoding of targets whose name matches;\n"
            "repeatable (default: none)");
  app.add_flag("--dequantize", selection.dequantize,
               "Decode quantised tensors (FP8, MXFP4, GPTQ, ...) before\n"
               "anything else, to --dtype, else config.json's dtype\n"
               "(default: keep codes and scales)");
  add_value(app, "--quantize", "keep|fp8-block|mxfp4",
            "Encode weights last of all, but for those that --keep-dtype\n"
            "or config.json's modules_to_not_convert names (default: keep)",
            [&selection](const std::string& text) { selection.quantize = parse_quantize(text); });
  add_value(app, "--expect", "FILE",
            "What the runtime has places for: JSON {NAME: {dtype, shape}},\n"
            "output of plan --json or inspect --json, or a checkpoint;\n"
            "then what is missing, unexpected or mismatched is told\n"
            "(default: not checked)",
            [&selection](const std::string& text) {
              selection.expected = read_expected(system_calls(), text);
            });
  add_spread_flags(app, selection);
  app.add_flag("--lenient", selection.lenient,
               "Let pass source tensors that no target uses or expects\n"
               "(default: refuse)");
}

void add_output_flags(CLI::App& app, OutputOptions& output) {
  add_value(app, "--max-shard-size", "SIZE",
            "Fill files up to this size, in name order: 5GB, 4GiB\n"
            "(default: 50GB)",
            [&output](const std::string& text) {
              output.max_shard_bytes = parse_byte_size(text);
              output.max_shard_given = true;
            });
  add_value(app, "--layout-from", "DIR|INDEX",
            "Copy the split into files of this checkpoint (default:\n"
            "the source's where the layout stays, else by size)",
            [&output](const std::string& text) { output.layout_from = text; });
  app.add_flag("--overwrite", output.overwrite,
               "Replace DST when it exists, in one step (default: refuse)");
  app.add_flag("--resume", output.resume,
               "Go on where a run that was killed stood\n"
               "(default: start afresh)");
  app.add_flag_callback(
      "--trust-replicas", [&output] { output.compare_replicas = false; },
      "Take the first rank's where ranks of a sharded SRC hold the\n"
      "same part (default: compare them first)");
  app.add_flag("--checksums", output.checksums,
               "Write a digest of each tensor to weightloom.checksums.json,\n"
               "which verify checks (default: none)");
}

void add_rank_flag(CLI::App& app, RankFlag& flag) {
  add_value(app, "--rank", "N|all",
            "Only what this rank of the mesh holds; ranks count from 0\n"
            "(default: all)",
            [&flag](const std::string& text) { flag.rank = parse_rank(text); });
}

std::vector<int64_t> wanted_ranks(const Conversion& conversion, const RankFlag& flag) {
  if (!conversion.spread && flag.rank) {
    throw Error(ErrorCode::usage, "--rank: there are no ranks without a mesh",
                "give the mesh with --mesh, as in --mesh fsdp=4,tp=2");
  }
  if (!conversion.spread) return {};
  if (flag.rank) {
    Conversion of_nothing;
    of_nothing.spread = Spread{conversion.spread->meshes, {}};
    for_ranks(std::move(of_nothing), std::span(&*flag.rank, 1));  // refuses a rank not there
    return {*flag.rank};
  }
  std::vector<int64_t> ranks(static_cast<size_t>(conversion.spread->meshes.size()));
  std::iota(ranks.begin(), ranks.end(), int64_t{0});
  return ranks;
}

Conversion for_rank(Conversion conversion, const RankFlag& flag) {
  const std::vector<int64_t> ranks = wanted_ranks(conversion, flag);
  return for_ranks(std::move(conversion), ranks);
}

void add_run_flags(CLI::App& app, RunFlags& flags) {
  add_value(
      app, "--memory-budget", "SIZE",
      "Most memory for buffers (default: 1GiB, or an eighth of\n"
      "what there is if that is less)",
      [&flags](const std::string& text) { flags.memory_budget_bytes = parse_byte_size(text); });
  add_value(app, "--threads", "N",
            "Workers; 1 works in order (default: 4, or the cores there\n"
            "are if more)",
            [&flags](const std::string& text) { flags.threads = parse_threads(text); });
}

void add_json_flag(CLI::App& app, PrintFlags& flags) {
  app.add_flag("--json", flags.json, "Print one JSON value on stdout and nothing else");
}

void add_quiet_flag(CLI::App& app, PrintFlags& flags) {
  app.add_flag("--quiet", flags.quiet, "No progress and no summary; failures are still told");
}

}  // namespace weightloom::cli
