#include "weightloom/cli/diff_command.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include "weightloom/base/byte_size.h"
#include "weightloom/cli/command_options.h"
#include "weightloom/cli/finding_output.h"
#include "weightloom/cli/json_output.h"
#include "weightloom/cli/quantity.h"
#include "weightloom/cli/table.h"
#include "weightloom/cli/watched_run.h"
#include "weightloom/execute/budget.h"
#include "weightloom/execute/diff.h"

namespace weightloom::cli {
namespace {

constexpr int64_t kMostOfACode = 20;

void write_kind(JsonWriter& json, const std::optional<TensorKind>& kind) {
  json.begin_object();
  if (kind) json.field("dtype", to_string(kind->dtype)).field("shape", kind->shape);
  json.end_object();
}

/// JSON has no infinity: it is the string "inf".
void write_distance(JsonWriter& json, double distance) {
  if (std::isfinite(distance)) {
    json.field("max_abs", distance);
  } else {
    json.field("max_abs", "inf");
  }
}

void write_values(JsonWriter& json, const ValueDifference& values, const Shape& shape) {
  json.begin_object().field("elements", values.elements).field("differing", values.differing);
  json.field("other_bits", values.other_bits);
  json.field("nan_only_in_a", values.nan_only_in_a).field("nan_only_in_b", values.nan_only_in_b);
  if (values.first_index >= 0) {
    json.field("first_index", coordinates_of(values.first_index, shape));
  }
  if (values.max_abs_index >= 0) {
    write_distance(json, values.max_abs);
    json.field("max_abs_index", coordinates_of(values.max_abs_index, shape));
  }
  json.end_object();
}

std::string as_json(const DiffReport& report) {
  JsonWriter json;
  json.begin_object().field("equal", report.equal).field("tensors", report.tensors);
  json.field("bytes", report.bytes).key("differences").begin_array();
  for (const TensorDifference& difference : report.differences) {
    json.begin_object().field("tensor", difference.tensor).field("code", difference.code);
    json.field("message", difference.message);
    write_kind(json.key("a"), difference.a);
    write_kind(json.key("b"), difference.b);
    if (difference.values)
      write_values(json.key("values"), *difference.values, difference.a->shape);
    json.end_object();
  }
  json.end_array();
  write_findings(json.key("findings"), report.findings);
  json.end_object();
  return std::move(json).finish();
}

/// Larger first: what has no number, then NaN against numbers, then by distance.
double weight_of(const TensorDifference& difference) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  if (!difference.values) return kInfinity;
  const ValueDifference& values = *difference.values;
  if (values.nan_only_in_a + values.nan_only_in_b > 0) return kInfinity;
  return values.max_abs_index < 0 ? -1 : values.max_abs;
}

/// Names first, then tensors that are something else, then values, the largest difference first.
std::vector<const TensorDifference*> in_order(const DiffReport& report) {
  static const std::vector<std::string> kCodes = {"only_in_a", "only_in_b", "shape",
                                                  "dtype",     "values",    "bits"};
  const auto rank = [](const TensorDifference* difference) {
    return std::ranges::find(kCodes, difference->code) - kCodes.begin();
  };
  std::vector<const TensorDifference*> order;
  for (const TensorDifference& difference : report.differences) order.push_back(&difference);
  const auto key = [&](const TensorDifference* difference) {
    return std::tuple(rank(difference), -weight_of(*difference),
                      std::string_view(difference->tensor));
  };
  std::ranges::sort(order, {}, key);
  return order;
}

/// What the message says besides the tensor's name and the code, which have columns of their own.
std::string detail_of(const TensorDifference& difference) {
  const std::string& message = difference.message;
  const std::string_view before = difference.code.starts_with("only_in") ? " alone, " : "': ";
  const size_t at = message.find(before);
  return at == std::string::npos ? message : message.substr(at + before.size());
}

std::string differences_text(const DiffReport& report) {
  Table table({Align::left, Align::left, Align::left});
  std::string shown;
  int64_t count = 0;
  int64_t hidden = 0;
  for (const TensorDifference* difference : in_order(report)) {
    count = difference->code == shown ? count + 1 : 1;
    shown = difference->code;
    if (count > kMostOfACode) {
      ++hidden;
      continue;
    }
    table.add({shown, printable(difference->tensor), printable(detail_of(*difference))});
  }
  std::string text = table.text();
  if (hidden > 0) text += fmt::format("and {} more; --json lists all\n", hidden);
  return text;
}

class DiffCommand : public Command {
 public:
  std::string name() const override { return "diff"; }
  std::string summary() const override {
    return "How two checkpoints differ, tensor by tensor and in number\n"
           "\n"
           "Names, dtypes, shapes and values: how many differ, by how much at most, and where.\n"
           "Values of two dtypes are compared as numbers. B is taken as it is; with --to, --from "
           "or\n"
           "--mapping it is brought to A's layout. Ends with 1 on differences.\n";
  }
  std::string examples() const override {
    return "Examples:\n"
           "  weightloom diff Mixtral-8x7B Mixtral-8x7B-tuned\n"
           "  weightloom diff Mixtral-8x7B-runtime Mixtral-8x7B --to runtime\n"
           "  weightloom diff base tuned --include '*.layers.0.*' --json";
  }

  void declare(CLI::App& app) override {
    add_path(app, "A", a_, "A folder, a .safetensors file, or a .safetensors.index.json");
    add_path(app, "B", b_, "Another, to compare with A");
    add_selection_flags(app, selection_);
    add_run_flags(app, run_);
    add_quiet_flag(app, print_);
    add_json_flag(app, print_);
  }

  ExitCode failure_code() const override { return ExitCode::differs; }
  bool is_lenient() const override { return selection_.lenient; }

  ExitCode run(const CommandContext& context) override {
    const DiffReport report = compare(context);
    write_stdout(text_of(report, context.out));
    return report.equal ? ExitCode::done : ExitCode::differs;
  }

 private:
  DiffReport compare(const CommandContext& context) const {
    const Checkpoint a = Checkpoint::open(context.calls, a_, default_threads());
    const Checkpoint b = Checkpoint::open(context.calls, b_, default_threads());
    const WatchedRun watched(context.calls, context.err, run_, print_);
    return diff(context.calls, a, b, selection_, Registry::built_in(), watched.options());
  }

  std::string text_of(const DiffReport& report, const Terminal& on) const {
    if (print_.json) return as_json(report);
    if (print_.quiet && report.equal) return "";
    return findings_text(report.findings, selection_.lenient, on) + differences_text(report) +
           verdict(report, on);
  }

  std::string verdict(const DiffReport& report, const Terminal& on) const {
    const std::string names = printable(fmt::format("{} and {}", a_, b_));
    const std::string amount =
        fmt::format("{}, {}", count_text(report.tensors, "tensor"), format_byte_size(report.bytes));
    if (report.equal) {
      return fmt::format("{} ({})\n", styled(on, Style::green, names + " are equal"), amount);
    }
    const auto count = static_cast<int64_t>(report.differences.size());
    const std::string what = fmt::format("{} differ in {}", names, count_text(count, "tensor"));
    return fmt::format("{} (values compared: {})\n", styled(on, Style::red, what), amount);
  }

  std::string a_;
  std::string b_;
  Selection selection_;
  RunFlags run_;
  PrintFlags print_;
};

}  // namespace

std::unique_ptr<Command> make_diff_command() { return std::make_unique<DiffCommand>(); }

}  // namespace weightloom::cli
