#include <optional>
#include <utility>

#include <nanobind/nanobind.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include "plan_runs.h"
#include "watch.h"
#include "weightloom/execute/convert.h"
#include "weightloom/execute/replicas.h"
#include "weightloom/execute/tied_values.h"

namespace nb = nanobind;

namespace weightloom::python {
namespace {

using Strings = std::vector<std::pair<std::string, std::string>>;

OutputOptions output_options(std::optional<int64_t> max_shard_bytes,
                             std::optional<std::string> layout_from, bool overwrite, bool resume,
                             bool checksums, bool trust_replicas) {
  OutputOptions output;
  output.max_shard_given = max_shard_bytes.has_value();
  output.max_shard_bytes = max_shard_bytes.value_or(output.max_shard_bytes);
  output.layout_from = std::move(layout_from);
  output.overwrite = overwrite;
  output.resume = resume;
  output.checksums = checksums;
  output.compare_replicas = !trust_replicas;
  return output;
}

/// With other header metadata the files are none of the original's.
Conversion with_metadata(Conversion conversion, const Strings& metadata) {
  conversion.metadata = metadata;
  conversion.original_files.clear();
  conversion.original_index.reset();
  conversion.kept_names.clear();
  return conversion;
}

ConvertReport convert_plan(const PlanPtr& plan, const std::string& destination,
                           std::optional<int64_t> max_shard_bytes,
                           std::optional<std::string> layout_from, bool overwrite, bool resume,
                           bool checksums, bool drop_tied, bool trust_replicas,
                           const std::optional<Strings>& metadata, std::optional<int> threads,
                           const Budget& memory_budget, nb::object progress) {
  const PlanPtr planned = metadata ? plan->with(with_metadata(plan->whole(), *metadata)) : plan;
  const OutputOptions output = output_options(max_shard_bytes, std::move(layout_from), overwrite,
                                              resume, checksums, trust_replicas);
  Watch watch(threads, memory_budget, std::move(progress));
  return watch.run([&] {
    planned->refuse_if_refused();
    Conversion conversion = planned->whole();
    if (drop_tied) {
      conversion = without_equal_ties(planned->calls(), std::move(conversion), watch.options());
    }
    conversion = planned->for_output(std::move(conversion));
    return convert(planned->calls(), planned->source().checkpoint(), conversion, planned->lenient(),
                   destination, output, watch.options());
  });
}

/// What config.json says is tied and the values say is not.
std::vector<Finding> tied_findings_of(const PlanPtr& plan, std::optional<int> threads,
                                      const Budget& memory_budget) {
  if (plan->whole().tied_but_stored.empty()) return {};
  Watch watch(threads, memory_budget, nb::none());
  return watch.run([&] {
    const Conversion& conversion = plan->whole();
    return tied_findings(compare_tied(plan->calls(), conversion, watch.options()).different);
  });
}

/// Parts that ranks of a sharded source hold alike are to be equal.
void check_replicas(const PlanPtr& plan, std::optional<int> threads, const Budget& memory_budget) {
  if (plan->whole().replicas.empty()) return;
  Watch watch(threads, memory_budget, nb::none());
  watch.run([&] {
    refuse_differing_replicas(plan->calls(), plan->source().checkpoint(), plan->whole().replicas,
                              watch.options());
    return true;
  });
}

}  // namespace

void bind_converts(nb::module_& module, nb::class_<Plan>& plan) {
  nb::class_<ConvertReport>(module, "ConvertReport", "What a conversion did. Sizes are in bytes.")
      .def_ro("files", &ConvertReport::files, "Safetensors files of the output, in order.")
      .def_ro("files_written", &ConvertReport::files_written, "How many were written.")
      .def_ro("files_linked", &ConvertReport::files_linked, "How many are the source's own.")
      .def_ro("files_copied", &ConvertReport::files_copied, "How many the kernel copied.")
      .def_ro("targets", &ConvertReport::targets, "Tensors of the output.")
      .def_ro("target_bytes", &ConvertReport::target_bytes, "Size of these tensors.")
      .def_ro("bytes_needed", &ConvertReport::bytes_needed, "Source bytes that reach a target.")
      .def_ro("bytes_read", &ConvertReport::bytes_read, "Read for files that were written.")
      .def_ro("bytes_written", &ConvertReport::bytes_written, "Of targets.")
      .def_ro("peak_working_bytes", &ConvertReport::peak_working_bytes,
              "Tiles and staging of all workers at once.")
      .def_ro("resumed_bytes", &ConvertReport::resumed_bytes, "Made by an interrupted run.")
      .def_ro("findings", &ConvertReport::findings, "All that is to be told.");
  plan.def(
      "convert", &convert_plan, nb::arg("destination"), nb::kw_only(),
      nb::arg("max_shard_bytes") = nb::none(), nb::arg("layout_from") = nb::none(),
      nb::arg("overwrite") = false, nb::arg("resume") = false, nb::arg("checksums") = false,
      nb::arg("drop_tied") = false, nb::arg("trust_replicas") = false,
      nb::arg("metadata") = nb::none(), nb::arg("threads") = nb::none(),
      nb::arg("memory_budget") = nb::none(), nb::arg("progress") = nb::none(),
      nb::sig("def convert(self, destination: str, *, max_shard_bytes: int | None = None, "
              "layout_from: str | None = None, overwrite: bool = False, resume: bool = False, "
              "checksums: bool = False, drop_tied: bool = False, trust_replicas: bool = False, "
              "metadata: list[tuple[str, str]] | None = None, "
              "threads: int | None = None, memory_budget: int | str | None = None, progress: "
              "collections.abc.Callable[[int, int, str], object] | None = None) -> "
              "ConvertReport"),
      "Runs the plan into a folder, or into a file that ends in .safetensors; durable, and in "
      "one step: after any error the destination is as it was.");
  plan.def("tied_findings", &tied_findings_of, nb::kw_only(), nb::arg("threads") = nb::none(),
           nb::arg("memory_budget") = nb::none(),
           nb::sig("def tied_findings(self, *, threads: int | None = None, memory_budget: int | "
                   "str | None = None) -> list[Finding]"),
           "Reads what config.json says is tied and the source stores twice: a finding for each "
           "pair whose values differ.");
  plan.def("check_replicas", &check_replicas, nb::kw_only(), nb::arg("threads") = nb::none(),
           nb::arg("memory_budget") = nb::none(),
           nb::sig("def check_replicas(self, *, threads: int | None = None, memory_budget: int | "
                   "str | None = None) -> None"),
           "Of a sharded source: reads the parts that several ranks hold, and raises "
           "CheckpointError with a finding for each copy that differs.");
}

}  // namespace weightloom::python
