#include "plan.h"

#include <span>
#include <string_view>

#include "weightloom/base/file.h"
#include "weightloom/sharding/load_specs_json.h"

namespace weightloom::python {
namespace {

/// The path of a file, or of the text that was given in its place. Messages call it by it.
std::string path_of(const std::string& given, const std::string& file, MemoryFiles& files) {
  if (!given.starts_with('{') && !given.starts_with('[')) return given;
  std::string path = "(given)/" + file;
  files.add_text(path, given);
  return path;
}

void add_spread(Selection& selection, const PlanRequest& request, MemoryFiles& files,
                const OperationMakers& operations) {
  if (!request.mesh.empty()) selection.meshes = MeshSet::parse(request.mesh);
  if (request.tp_plan) selection.tp_plan = path_of(*request.tp_plan, "tp_plan.json", files);
  if (request.placements) {
    const std::string path = path_of(*request.placements, "placements.json", files);
    selection.placements = read_placements(files.calls(), path);
  }
  if (request.load_specs) {
    const std::string path = path_of(*request.load_specs, "load_specs.json", files);
    selection.load_specs = read_load_specs(files.calls(), path, operations);
  }
}

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

std::optional<EncodeScheme> scheme_called(const std::string& name) {
  if (name == "keep") return std::nullopt;
  for (const EncodeScheme scheme : {EncodeScheme::fp8_block, EncodeScheme::mxfp4}) {
    if (name == to_string(scheme)) return scheme;
  }
  throw Error(ErrorCode::usage, "quantize='" + name + "'", "take 'keep', 'fp8-block' or 'mxfp4'");
}

}  // namespace

Selection selection_of(const PlanRequest& request, MemoryFiles& files,
                       const OperationMakers& operations) {
  Selection selection;
  selection.from = side_called(request.from, "auto", "from_");
  const Side to = side_called(request.to, "same", "to");
  if (to != Side::unknown) selection.to = to;
  selection.mapping = path_of(request.mapping, "mapping.json", files);
  selection.architecture = request.architecture;
  selection.renames = request.renames;
  selection.include = request.include;
  selection.exclude = request.exclude;
  selection.lenient = request.lenient;
  if (request.dtype) selection.dtype = dtype_called(*request.dtype);
  selection.keep_dtype = request.keep_dtype;
  selection.expected = request.expected;
  selection.dequantize = request.dequantize;
  selection.quantize = scheme_called(request.quantize);
  add_spread(selection, request, files, operations);
  return selection;
}

Plan::Plan(SourcePtr source)
    : source_(std::move(source)), texts_(std::make_shared<MemoryFiles>(source_->calls())) {}

PlanPtr Plan::make(SourcePtr source, const PlanRequest& request, const Registry& registry,
                   int threads) {
  const std::shared_ptr<Plan> plan(new Plan(std::move(source)));
  const Checkpoint& checkpoint = plan->source_->checkpoint();
  if (request.config_json) {
    plan->texts_->add_text(join_path(checkpoint.folder(), "config.json"), *request.config_json);
  }
  plan->lenient_ = request.lenient;
  plan->rank_ = request.rank;
  const Selection selection = selection_of(request, *plan->texts_, registry.operations());
  plan->set(plan_conversion(plan->calls(), checkpoint, selection, registry, threads));
  return plan;
}

void Plan::set(Conversion whole) {
  if (rank_ && !whole.spread) {
    throw Error(ErrorCode::usage, "rank=" + std::to_string(*rank_) + ": there is no mesh",
                "give the mesh, as in mesh='fsdp=4,tp=2'");
  }
  whole_ = std::make_shared<const Conversion>(std::move(whole));
  made_ = whole_;
  if (!rank_ || whole_->is_refused(lenient_)) return;
  made_ = std::make_shared<const Conversion>(for_output(*whole_));
}

Conversion Plan::for_output(Conversion whole) const {
  return rank_ ? for_ranks(std::move(whole), std::span(&*rank_, 1))
               : for_all_ranks(std::move(whole));
}

void Plan::refuse_if_refused() const {
  if (whole_->is_refused(lenient_)) throw refusal_of(whole_->findings, lenient_);
}

void Plan::refuse_unless_loadable() const {
  refuse_if_refused();
  if (!whole_->spread || rank_) return;
  throw Error(ErrorCode::usage,
              "the tensors are spread over the mesh '" + to_string(whole_->spread->meshes) +
                  "', and no rank was given",
              "give the rank whose parts are wanted, as in rank=0");
}

PlanPtr Plan::with(Conversion whole) const {
  const std::shared_ptr<Plan> changed(new Plan(*this));
  changed->set(std::move(whole));
  return changed;
}

PlanPtr Plan::of_rank(Conversion whole, int64_t rank) const {
  const std::shared_ptr<Plan> changed(new Plan(*this));
  changed->rank_ = rank;
  changed->set(std::move(whole));
  return changed;
}

}  // namespace weightloom::python
