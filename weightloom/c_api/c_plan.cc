#include <algorithm>
#include <string_view>

#include <fmt/format.h>

#include "weightloom/c_api/c_error_internal.h"
#include "weightloom/c_api/c_handles_internal.h"
#include "weightloom/c_api/c_structs_internal.h"
#include "weightloom/codec/cast.h"
#include "weightloom/plan/renames.h"

namespace weightloom::c_api {
namespace {

Error wrong_word(const char* member, std::string_view word, const char* words) {
  return Error(ErrorCode::usage,
               fmt::format("options.{}: '{}' is none of {}", member, word, words));
}

Side parse_from(const char* word) {
  const std::string_view from = word == nullptr ? "auto" : word;
  if (from == "auto") return Side::unknown;
  if (from == "hub") return Side::hub;
  if (from == "runtime") return Side::runtime;
  throw wrong_word("from", from, "auto, hub, runtime");
}

std::optional<Side> parse_to(const char* word) {
  const std::string_view to = word == nullptr ? "same" : word;
  if (to == "same") return std::nullopt;
  if (to == "hub") return Side::hub;
  if (to == "runtime") return Side::runtime;
  throw wrong_word("to", to, "same, hub, runtime");
}

std::optional<DType> parse_wanted_dtype(const char* word) {
  const std::string_view wanted = word == nullptr ? "keep" : word;
  if (wanted == "keep") return std::nullopt;
  const auto dtype = parse_dtype(wanted);
  if (dtype && is_castable(*dtype)) return dtype;
  throw wrong_word("dtype", wanted, "keep, BF16, F16, F32, F64");
}

std::vector<std::string> parse_texts(const char* const* texts, size_t count, const char* member) {
  if (count > 0) require(static_cast<const void*>(texts), member);
  std::vector<std::string> result;
  for (const char* text : std::span(texts, count)) {
    require(text, member);
    result.emplace_back(text);
  }
  return result;
}

Selection parse_selection(const wl_plan_options& options) {
  Selection selection;
  selection.from = parse_from(options.from);
  selection.to = parse_to(options.to);
  if (options.mapping != nullptr) selection.mapping = options.mapping;
  if (options.architecture != nullptr) selection.architecture = options.architecture;
  selection.include = parse_texts(options.include, options.include_count, "options.include");
  selection.exclude = parse_texts(options.exclude, options.exclude_count, "options.exclude");
  selection.dtype = parse_wanted_dtype(options.dtype);
  selection.keep_dtype =
      parse_texts(options.keep_dtype, options.keep_dtype_count, "options.keep_dtype");
  for (const auto& text : parse_texts(options.renames, options.rename_count, "options.renames")) {
    selection.renames.push_back(parse_rename(text));
  }
  selection.lenient = options.lenient != 0;
  return selection;
}

}  // namespace
}  // namespace weightloom::c_api

using namespace weightloom;

wl_status wl_plan_create(const wl_checkpoint* checkpoint, const wl_plan_options* options,
                         wl_plan** plan, wl_error** error) {
  if (plan != nullptr) *plan = nullptr;
  return c_api::guarded(error, [&] {
    c_api::require(checkpoint, "checkpoint");
    c_api::require(static_cast<const void*>(plan), "plan");
    const auto given = c_api::read_struct(options, WL_PLAN_OPTIONS_DEFAULT, "options");
    const Selection selection = c_api::parse_selection(given);
    auto made = std::make_unique<wl_plan>();
    made->source = checkpoint->checkpoint;
    made->lenient = selection.lenient;
    made->conversion =
        plan_conversion(system_calls(), *made->source, selection, Registry::built_in(),
                        c_api::threads_or_default(given.threads));
    made->findings_json = c_api::findings_json(made->conversion.findings);
    *plan = made.release();
  });
}

void wl_plan_free(wl_plan** plan) {
  if (plan == nullptr) return;
  delete *plan;
  *plan = nullptr;
}

int32_t wl_plan_is_refused(const wl_plan* plan) {
  if (plan == nullptr) return -1;
  return plan->conversion.is_refused(plan->lenient) ? 1 : 0;
}

const char* wl_plan_findings_json(const wl_plan* plan) {
  return plan == nullptr ? "[]" : plan->findings_json.c_str();
}

int64_t wl_plan_target_count(const wl_plan* plan) {
  return plan == nullptr ? -1 : std::ssize(plan->conversion.program.targets());
}

wl_status wl_plan_target(const wl_plan* plan, int64_t index, wl_tensor* tensor, wl_error** error) {
  return c_api::guarded(error, [&] {
    c_api::require(plan, "plan");
    c_api::require(tensor, "tensor");
    const auto targets = plan->conversion.program.targets();
    const ProgramTarget& found = targets[c_api::checked_index(index, targets.size(), "target")];
    c_api::fill_struct(
        tensor, c_api::describe(found.name, found.dtype, found.shape, found.size_bytes), "tensor");
  });
}

int64_t wl_plan_find_target(const wl_plan* plan, const char* name) {
  if (plan == nullptr || name == nullptr) return -1;
  const auto targets = plan->conversion.program.targets();
  const auto found = std::lower_bound(
      targets.begin(), targets.end(), std::string_view(name),
      [](const ProgramTarget& target, std::string_view wanted) { return target.name < wanted; });
  return found == targets.end() || found->name != name ? -1 : found - targets.begin();
}
