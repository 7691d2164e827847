#include <map>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/map.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include "plan_runs.h"
#include "tensor.h"
#include "watch.h"
#include "weightloom/execute/cast_findings.h"
#include "weightloom/execute/load.h"

namespace nb = nanobind;

namespace weightloom::python {
namespace {

/// A load in one arena, as it goes: targets become objects of a framework when they are asked for.
class Load {
 public:
  Load(PlanPtr plan, Framework framework) : plan_(std::move(plan)), framework_(framework) {
    plan_->refuse_unless_loadable();
    for (const ProgramTarget& target : plan_->program().targets()) {
      refuse_unknown_to(framework_, target.dtype, target.name);
    }
    memory_ = std::make_shared<LoadedTensors>(allocate(plan_->program()));
  }

  nb::object object_of(size_t target) const {
    const ProgramTarget& made = plan_->program().targets()[target];
    return to_framework({made.dtype, made.shape, memory_->tensors[target], memory_}, framework_);
  }

  void run(Watch& watch, bool tells_complete) {
    watch.run([&] {
      LoadOptions options{watch.options(), {}};
      if (tells_complete) options.complete = [&](size_t target) { watch.note_complete(target); };
      fill(plan_->calls(), plan_->program(), *memory_, options);
      return true;
    });
  }

  nb::dict objects() const {
    nb::dict result;
    const auto targets = plan_->program().targets();
    for (size_t i = 0; i < targets.size(); ++i) {
      result[nb::cast(targets[i].name)] = object_of(i);
    }
    return result;
  }

  const std::vector<Finding>& findings() const { return memory_->findings; }

 private:
  PlanPtr plan_;
  Framework framework_;
  std::shared_ptr<LoadedTensors> memory_;
};

nb::tuple load_plan(const PlanPtr& plan, std::optional<int> threads, const Budget& memory_budget,
                    nb::object progress, nb::object complete, const std::string& framework) {
  Load load(plan, parse_framework(framework));
  Watch watch(threads, memory_budget, std::move(progress), [&](size_t target) {
    complete(plan->program().targets()[target].name, load.object_of(target));
  });
  load.run(watch, !complete.is_none());
  return nb::make_tuple(load.objects(), load.findings());
}

using Buffer = nb::ndarray<nb::c_contig, nb::device::cpu>;
using Buffers = std::map<std::string, nb::object>;

/// A caller's buffer for a target: of its dtype, or raw bytes; of its size; writable.
Buffer buffer_for(const ProgramTarget& target, const Buffers& buffers) {
  const auto found = buffers.find(target.name);
  if (found == buffers.end()) {
    throw Error(ErrorCode::usage, "target '" + target.name + "' has no buffer",
                "give one for each of the plan's targets, or leave targets out with exclude");
  }
  Buffer buffer;
  if (!nb::try_cast<Buffer>(found->second, buffer, false)) {
    throw Error(ErrorCode::usage, "the buffer for '" + target.name +
                                      "' is not writable, contiguous memory of the CPU");
  }
  if (!holds(buffer.dtype(), target.dtype)) {
    throw Error(ErrorCode::usage,
                "the buffer for '" + target.name + "' has another dtype than " +
                    std::string(to_string(target.dtype)),
                "plan with the dtype that is wanted");
  }
  return buffer;
}

void refuse_unknown_buffers(const CopyProgram& program, const Buffers& buffers) {
  std::map<std::string_view, bool> known;
  for (const ProgramTarget& target : program.targets()) known.emplace(target.name, true);
  for (const auto& [name, buffer] : buffers) {
    if (known.contains(name)) continue;
    throw Error(ErrorCode::usage, "there is a buffer for '" + name + "', which no target is called",
                "see the plan's targets");
  }
}

std::vector<Finding> load_into_buffers(const PlanPtr& plan, const Buffers& buffers,
                                       std::optional<int> threads, const Budget& memory_budget,
                                       nb::object progress, nb::object complete) {
  plan->refuse_unless_loadable();
  const CopyProgram& program = plan->program();
  refuse_unknown_buffers(program, buffers);
  std::vector<Buffer> held;
  std::vector<std::span<std::byte>> spans;
  for (const ProgramTarget& target : program.targets()) {
    held.push_back(buffer_for(target, buffers));
    spans.emplace_back(static_cast<std::byte*>(held.back().data()), held.back().nbytes());
  }
  Watch watch(threads, memory_budget, std::move(progress),
              [&](size_t target) { complete(program.targets()[target].name); });
  const RunStatistics done = watch.run([&] {
    LoadOptions options{watch.options(), {}};
    if (!complete.is_none()) options.complete = [&](size_t target) { watch.note_complete(target); };
    return load_into(plan->calls(), program, spans, options);
  });
  return cast_findings(program, done);
}

}  // namespace

void bind_loads(nb::class_<Plan>& plan) {
  plan.def(
          "load", &load_plan, nb::kw_only(), nb::arg("threads") = nb::none(),
          nb::arg("memory_budget") = nb::none(), nb::arg("progress") = nb::none(),
          nb::arg("complete") = nb::none(), nb::arg("framework") = "numpy",
          nb::sig("def load(self, *, threads: int | None = None, memory_budget: int | str | None = "
                  "None, "
                  "progress: collections.abc.Callable[[int, int, str], object] | None = None, "
                  "complete: collections.abc.Callable[[str, typing.Any], object] | None = None, "
                  "framework: str = 'numpy') -> tuple[dict[str, typing.Any], list[Finding]]"),
          "Runs the plan into memory of its own: tensors by name, and findings of the run.\n\n"
          "All tensors lie in one arena, which each of them keeps alive. `progress` is called with "
          "bytes done, bytes in all and a tensor's name, `complete` with each name and tensor as "
          "soon as it is whole, both from the calling thread; what they raise stops the run.")
      .def("load_into", &load_into_buffers, nb::arg("buffers"), nb::kw_only(),
           nb::arg("threads") = nb::none(), nb::arg("memory_budget") = nb::none(),
           nb::arg("progress") = nb::none(), nb::arg("complete") = nb::none(),
           nb::sig("def load_into(self, buffers: dict[str, typing.Any], *, threads: int | None = "
                   "None, memory_budget: int | str | None = None, progress: "
                   "collections.abc.Callable[[int, int, str], object] | None = None, complete: "
                   "collections.abc.Callable[[str], object] | None = None) -> list[Finding]"),
           "Runs the plan into the caller's buffers, one per target: contiguous, writable memory "
           "of the CPU of the target's dtype, or bytes. Gives findings of the run. After an error "
           "their contents are undefined.");
}

}  // namespace weightloom::python
