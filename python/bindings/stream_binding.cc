#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include <nanobind/nanobind.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include "plan_runs.h"
#include "tensor.h"
#include "watch.h"
#include "weightloom/execute/stream.h"

namespace nb = nanobind;

namespace weightloom::python {
namespace {

constexpr std::chrono::milliseconds kPatience{40};  // how long a signal may go unheard

/// A run that Python iterates over. Closed, or forgotten, it stops.
class Stream {
 public:
  Stream(PlanPtr plan, Framework framework, const RunOptions& run)
      : plan_(std::move(plan)), framework_(framework) {
    plan_->refuse_unless_loadable();
    for (const ProgramTarget& target : plan_->program().targets()) {
      refuse_unknown_to(framework_, target.dtype, target.name);
    }
    stream_ = std::make_shared<TensorStream>(plan_->calls(), plan_->program(), run);
  }

  std::pair<std::string, nb::object> next() {
    std::optional<StreamedTensor> made = wait_for_next();
    if (!made) {
      if (stream_) findings_ = stream_->findings();
      close();
      throw nb::stop_iteration();
    }
    const ProgramTarget& target = plan_->program().targets()[made->target];
    auto memory = std::make_shared<TensorMemory>(std::move(made->memory));
    const std::span<std::byte> bytes = memory->bytes();
    return {target.name, to_framework({target.dtype, target.shape, bytes, memory}, framework_)};
  }

  void close() {
    std::shared_ptr<TensorStream> stream = std::exchange(stream_, nullptr);
    if (!stream) return;
    const nb::gil_scoped_release released;
    stream->stop();
    stream.reset();
  }

  const std::vector<Finding>& findings() const noexcept { return findings_; }

 private:
  /// Another thread of Python may close the stream meanwhile.
  std::optional<StreamedTensor> wait_for_next() {
    const std::shared_ptr<TensorStream> stream = stream_;
    if (!stream) return std::nullopt;
    while (!is_ready(*stream)) {
      if (PyErr_CheckSignals() == 0) continue;
      stream->stop();
      throw nb::python_error();
    }
    const nb::gil_scoped_release released;
    return stream->next();
  }

  static bool is_ready(TensorStream& stream) {
    const nb::gil_scoped_release released;
    return stream.is_ready(kPatience);
  }

  PlanPtr plan_;
  Framework framework_;
  std::shared_ptr<TensorStream> stream_;
  std::vector<Finding> findings_;
};

std::shared_ptr<Stream> stream_of(const PlanPtr& plan, std::optional<int> threads,
                                  const Budget& memory_budget, const std::string& framework) {
  const Watch watch(threads, memory_budget, nb::none());
  RunOptions options = watch.options();
  options.stop = {};
  return std::make_shared<Stream>(plan, parse_framework(framework), options);
}

}  // namespace

void bind_streams(nb::module_& module, nb::class_<Plan>& plan) {
  nb::class_<Stream>(module, "Stream",
                     "Names and tensors, each as soon as it is complete. Closing it, or leaving "
                     "its `with` block, stops the run.")
      .def(
          "__iter__", [](nb::object self) { return self; }, nb::sig("def __iter__(self) -> Stream"))
      .def("__next__", &Stream::next, nb::sig("def __next__(self) -> tuple[str, typing.Any]"))
      .def("close", &Stream::close, "Stops the run, and frees what was not taken.")
      .def_prop_ro("findings", &Stream::findings,
                   "After the last tensor: values that casts made infinite.")
      .def(
          "__enter__", [](nb::object self) { return self; },
          nb::sig("def __enter__(self) -> Stream"))
      .def("__exit__", [](Stream& stream, const nb::args&) { stream.close(); });
  plan.def("stream", &stream_of, nb::kw_only(), nb::arg("threads") = nb::none(),
           nb::arg("memory_budget") = nb::none(), nb::arg("framework") = "numpy",
           "Begins to run the plan, tensor by tensor, each in memory of its own. At most the "
           "budget is held in tensors that were not taken and in working memory together, but for "
           "one tensor larger than half of it.");
}

}  // namespace weightloom::python
