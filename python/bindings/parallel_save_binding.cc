// Parallel save for Python: a state that ranks hold, planned once, saved again and again.
#include <algorithm>
#include <map>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/map.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include "bind.h"
#include "placed.h"
#include "plan.h"
#include "shipped.h"
#include "watch.h"
#include "weightloom/comm/agreement.h"
#include "weightloom/comm/gather_state.h"
#include "weightloom/comm/parallel_save.h"
#include "weightloom/execute/budget.h"

namespace nb = nanobind;

namespace weightloom::python {
namespace {

using Strings = std::vector<std::pair<std::string, std::string>>;
// What went wrong in Python on this rank: a message, and what can be done about it.
using Fault = std::optional<std::pair<std::string, std::string>>;
// Name, dtype, shape, local shape, axes, ranks of the mesh, placements, whose second name it is.
using Described =
    std::tuple<std::string, std::string, Shape, Shape, std::vector<std::pair<std::string, int64_t>>,
               std::vector<int64_t>, std::vector<Placed>, std::string>;
using Buffer = nb::ndarray<nb::ro, nb::c_contig, nb::device::cpu>;
using Buffers = std::map<std::string, Buffer>;

RankTensor tensor_of(const Described& described) {
  const auto& [name, dtype, shape, local_shape, axes, ranks, placements, tied_to] = described;
  RankTensor tensor{.name = name, .shape = shape, .local_shape = local_shape, .mesh_ranks = ranks};
  const auto known = parse_dtype(dtype);
  if (!known) {
    throw Error(ErrorCode::usage,
                "tensor '" + name + "': safetensors has no dtype '" + dtype + "'");
  }
  tensor.dtype = *known;
  for (const auto& [axis, size] : axes) tensor.axes.push_back({axis, size});
  for (const Placed& placed : placements) tensor.placements.push_back(placement_of(placed));
  tensor.tied_to = tied_to;
  return tensor;
}

using Tensors = std::map<std::string, RankTensor>;

Tensors tensors_of(const std::vector<Described>& all) {
  Tensors tensors;
  for (const Described& described : all) {
    RankTensor tensor = tensor_of(described);
    std::string name = tensor.name;
    tensors.emplace(std::move(name), std::move(tensor));
  }
  return tensors;
}

void refuse(const Fault& fault) {
  if (fault) throw Error(ErrorCode::usage, fault->first, fault->second);
}

/// Errors: usage, with what was planned and what is there now.
void refuse_changes(const Tensors& planned, const Tensors& now) {
  constexpr const char* kNextStep = "plan anew: make another Saver";
  for (const auto& [name, tensor] : planned) {
    const auto found = now.find(name);
    if (found == now.end()) {
      throw Error(
          ErrorCode::usage,
          "tensor '" + name + "': was planned as " + to_string(tensor) + ", and is no longer held",
          kNextStep);
    }
    if (found->second == tensor) continue;
    throw Error(ErrorCode::usage,
                "tensor '" + name + "': was planned as " + to_string(tensor) + ", and is " +
                    to_string(found->second) + " now",
                kNextStep);
  }
  for (const auto& [name, tensor] : now) {
    if (planned.contains(name)) continue;
    throw Error(ErrorCode::usage,
                "tensor '" + name + "': is " + to_string(tensor) + " now, and was not planned",
                kNextStep);
  }
}

/// What the run may take, after the copies that the caller makes of the tensors on the rank that
/// makes most. Errors: usage, with both figures.
int64_t budget_beside(int64_t staged_bytes, int64_t budget_bytes, int threads) {
  constexpr int64_t kLeastOfAThread = int64_t{2} << 20;  // half of it for messages
  const int64_t left = budget_bytes - staged_bytes;
  const int64_t least = kLeastOfAThread * threads;
  if (left >= least) return left;
  throw Error(ErrorCode::usage,
              "the copies of a rank's tensors take " + std::to_string(staged_bytes) +
                  " bytes and the save at least " + std::to_string(least) +
                  ", of a memory_budget of " + std::to_string(budget_bytes),
              "give a memory_budget of " + std::to_string(staged_bytes + least) + " or more");
}

/// What the constructor of the Python class takes.
struct Request {
  std::vector<Described> tensors;
  Strings texts;
  PlanRequest selection;
  bool sharded = false;
  OutputOptions output;
  int64_t staged_bytes = 0;
  Fault fault;
};

/// A planned save, and the run that is under way.
class Saver {
 public:
  Saver(ProcessGroup& group, const Request& request, const Registry& registry, int threads,
        const Budget& memory_budget)
      : group_(group), files_(system_calls()) {
    Watch watch(threads, memory_budget, nb::none());
    run(watch, [&] {
      plan(request, registry, watch.options(), memory_budget.has_value());
      return true;
    });
  }

  ParallelSaveReport save(const std::vector<Described>& now, const Buffers& buffers,
                          const std::string& destination, const Fault& fault, nb::object progress) {
    Watch watch(1, int64_t{0}, std::move(progress));  // threads and budget are the plan's
    progress_ = watch.options().progress;
    return run(watch, [&] {
      std::vector<LocalTensorBytes> local;
      run_agreed(group_, [&] {
        refuse(fault);
        refuse_changes(tensors_, tensors_of(now));
        local = local_bytes(buffers);
      });
      return save_->save(local, destination);
    });
  }

  const Conversion& conversion() const { return save_->conversion(); }
  const Strings& tied() const { return tied_; }

 private:
  /// Runs `work`, watched. An interruption ends the group, so that no rank waits for this one; so
  /// does what is no Error, of which the ranks cannot have agreed.
  template <typename Work>
  auto run(Watch& watch, const Work& work) -> decltype(work()) {
    const std::stop_callback stopped(watch.options().stop, [this] {
      stop_.request_stop();
      group_.abort(Error(ErrorCode::cancelled, "cancelled by the caller"));
    });
    return watch.run([&] {
      try {
        return work();
      } catch (const Error&) {
        throw;
      } catch (const std::exception& error) {
        group_.abort(Error(ErrorCode::io, error.what()));
        throw;
      }
    });
  }

  void plan(const Request& request, const Registry& registry, RunOptions run_options,
            bool budget_is_given) {
    ParallelSaveOptions options;
    run_agreed(group_, [&] {
      refuse(request.fault);
      tensors_ = tensors_of(request.tensors);
      options = options_of(request, registry, run_options);
    });
    const int64_t staged = group_.all_reduce(Reduction::max, request.staged_bytes);
    run_agreed(group_, [&] {
      if (!budget_is_given) return;  // the library's own, beside the copies
      options.run.memory_budget_bytes =
          budget_beside(staged, run_options.memory_budget_bytes, run_options.threads);
    });
    JointState joint = gather_state(group_, held());
    tied_ = std::move(joint.tied);
    save_ = std::make_unique<ParallelSave>(group_,
                                           ShardedState{std::move(joint.manifest), request.texts},
                                           registry, options, files_.calls());
  }

  std::vector<RankTensor> held() const {
    std::vector<RankTensor> all;
    for (const auto& [name, tensor] : tensors_) all.push_back(tensor);
    return all;
  }

  ParallelSaveOptions options_of(const Request& request, const Registry& registry,
                                 RunOptions run_options) {
    run_options.stop = stop_.get_token();
    run_options.progress = [this](const Progress& now) {
      if (progress_) progress_(now);
    };
    ParallelSaveOptions options{.output = request.output, .run = std::move(run_options)};
    options.selection = selection_of(request.selection, files_, registry.operations());
    options.sharded = request.sharded;
    return options;
  }

  /// Of first names.
  std::vector<LocalTensorBytes> local_bytes(const Buffers& buffers) const {
    std::vector<LocalTensorBytes> local;
    for (const auto& [name, buffer] : buffers) {
      const bool is_second =
          std::ranges::any_of(tied_, [&](const auto& pair) { return pair.first == name; });
      if (is_second) continue;
      local.push_back({name, {static_cast<const std::byte*>(buffer.data()), buffer.nbytes()}});
    }
    return local;
  }

  ProcessGroup& group_;
  MemoryFiles files_;
  Tensors tensors_;  // of this rank, as they were planned
  Strings tied_;
  std::stop_source stop_;
  ProgressCallback progress_;
  std::unique_ptr<ParallelSave> save_;
};

void make_saver(Saver* self, ProcessGroup& group, std::vector<Described> tensors, Strings texts,
                const PlanRequest& selection, bool sharded, std::optional<int64_t> max_shard_bytes,
                std::optional<std::string> layout_from, bool overwrite, int64_t staged_bytes,
                Fault fault, const RegistryPtr& registry, std::optional<int> threads,
                const Budget& memory_budget) {
  Request request{std::move(tensors), std::move(texts), selection,       sharded,
                  OutputOptions(),    staged_bytes,     std::move(fault)};
  request.output.max_shard_given = max_shard_bytes.has_value();
  request.output.max_shard_bytes = max_shard_bytes.value_or(request.output.max_shard_bytes);
  request.output.layout_from = std::move(layout_from);
  request.output.overwrite = overwrite;
  const Registry known = registry ? *registry : shipped_registry();  // others may add to it
  new (self) Saver(group, request, known, threads.value_or(default_threads()), memory_budget);
}

void bind_report(nb::module_& module) {
  using Report = ParallelSaveReport;
  nb::class_<Report>(module, "ParallelSaveReport", "What a parallel save did. Sizes are in bytes.")
      .def_ro("files", &Report::files, "Safetensors files of the output, in order.")
      .def_ro("targets", &Report::targets, "Tensors of the output.")
      .def_ro("target_bytes", &Report::target_bytes, "Size of these tensors.")
      .def_ro("bytes_written", &Report::bytes_written, "Of targets, by this rank.")
      .def_ro("bytes_sent", &Report::bytes_sent, "By this rank to others, before they wrote.")
      .def_ro("peak_working_bytes", &Report::peak_working_bytes,
              "Tiles, staging and messages of this rank at once.")
      .def_ro("findings", &Report::findings, "All that is to be told.");
}

}  // namespace

void bind_parallel_saves(nb::module_& module) {
  bind_report(module);
  nb::class_<Saver>(module, "ParallelSave", "A save of what ranks hold together, planned.")
      .def("__init__", &make_saver, nb::arg("group"), nb::arg("tensors"), nb::kw_only(),
           nb::arg("texts"), nb::arg("selection"), nb::arg("sharded"),
           nb::arg("max_shard_bytes").none(), nb::arg("layout_from").none(), nb::arg("overwrite"),
           nb::arg("staged_bytes"), nb::arg("fault").none(), nb::arg("registry").none(),
           nb::arg("threads").none(), nb::arg("memory_budget").none(), nb::keep_alive<1, 2>(),
           "Plans, together with the other ranks. Of each tensor (name, dtype, shape, local shape, "
           "[(axis, size)], ranks of the mesh, [(kind, dim, split factor)], whose second name it "
           "is); `fault` is what went wrong here before, as (message, next step).")
      .def("save", &Saver::save, nb::arg("tensors"), nb::arg("buffers"), nb::arg("destination"),
           nb::arg("fault").none(), nb::arg("progress").none(),
           nb::sig("def save(self, tensors: list, buffers: dict, destination: str, fault: "
                   "tuple[str, str] | None, progress: collections.abc.Callable[[int, int, str], "
                   "object] | None) -> ParallelSaveReport"),
           "Saves what the ranks hold now; `tensors` as they were planned.")
      .def_prop_ro("tied", &Saver::tied, "Pairs of a second name and the name of its tensor.")
      .def_prop_ro(
          "findings", [](const Saver& saver) { return saver.conversion().findings; },
          "All that was found, of every severity.")
      .def_prop_ro(
          "mapping", [](const Saver& saver) { return saver.conversion().mapping; },
          "Name of the mapping; 'none', 'plain' or 'unknown'.");
}

}  // namespace weightloom::python
