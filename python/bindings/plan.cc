#include "plan.h"

#include <string_view>

#include "weightloom/base/file.h"

namespace weightloom::python {
namespace {

// What messages call a mapping that was given as text.
constexpr std::string_view kGivenMapping = "(given)/mapping.json";

Side side_called(const std::string& name, std::string_view other, const std::string& argument) {
  if (name == other) return Side::unknown;
  for (const Side side : {Side::hub, Side::runtime}) {
    if (name == to_string(side)) return side;
  }
  throw Error(ErrorCode::usage, argument + "='" + name + "'",
              "take '" + std::string(other) + "', 'hub' or 'runtime'");
}

DType dtype_called(const std::string& name) {
  if (const auto dtype = parse_dtype(name)) return *dtype;
  throw Error(ErrorCode::usage, "dtype='" + name + "'", "take BF16, F16, F32 or F64");
}

}  // namespace

Selection selection_of(const PlanRequest& request) {
  Selection selection;
  selection.from = side_called(request.from, "auto", "from_");
  const Side to = side_called(request.to, "same", "to");
  if (to != Side::unknown) selection.to = to;
  selection.mapping =
      request.mapping.starts_with('{') ? std::string(kGivenMapping) : request.mapping;
  selection.architecture = request.architecture;
  selection.renames = request.renames;
  selection.include = request.include;
  selection.exclude = request.exclude;
  selection.lenient = request.lenient;
  if (request.dtype) selection.dtype = dtype_called(*request.dtype);
  selection.keep_dtype = request.keep_dtype;
  selection.expected = request.expected;
  return selection;
}

void add_given_mapping(MemoryFiles& files, const PlanRequest& request) {
  if (request.mapping.starts_with('{')) {
    files.add_text(std::string(kGivenMapping), request.mapping);
  }
}

Plan::Plan(SourcePtr source)
    : source_(std::move(source)), texts_(std::make_shared<MemoryFiles>(source_->calls())) {}

PlanPtr Plan::make(SourcePtr source, const PlanRequest& request, const Registry& registry,
                   int threads) {
  const std::shared_ptr<Plan> plan(new Plan(std::move(source)));
  const Checkpoint& checkpoint = plan->source_->checkpoint();
  add_given_mapping(*plan->texts_, request);
  if (request.config_json) {
    plan->texts_->add_text(join_path(checkpoint.folder(), "config.json"), *request.config_json);
  }
  plan->lenient_ = request.lenient;
  plan->conversion_ =
      plan_conversion(plan->calls(), checkpoint, selection_of(request), registry, threads);
  return plan;
}

void Plan::refuse_if_refused() const {
  if (conversion_.is_refused(lenient_)) throw refusal_of(conversion_.findings, lenient_);
}

PlanPtr Plan::with(Conversion conversion) const {
  const std::shared_ptr<Plan> changed(new Plan(*this));
  changed->conversion_ = std::move(conversion);
  return changed;
}

}  // namespace weightloom::python
