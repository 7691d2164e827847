#include <string>
#include <vector>

#include <nanobind/nanobind.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/unique_ptr.h>
#include <nanobind/stl/vector.h>

#include "bind.h"
#include "python_group.h"
#include "weightloom/base/error.h"

namespace nb = nanobind;

namespace weightloom::python {
namespace {

nb::bytes bytes_of(std::span<const std::byte> bytes) {
  return nb::bytes(bytes.data(), bytes.size());
}

std::span<const std::byte> span_of(const nb::bytes& bytes) {
  return {static_cast<const std::byte*>(bytes.data()), bytes.size()};
}

nb::list all_gather(ProcessGroup& group, const nb::bytes& mine) {
  std::vector<std::vector<std::byte>> all;
  {
    const nb::gil_scoped_release released;
    all = group.all_gather_v(span_of(mine));
  }
  nb::list result;
  for (const auto& bytes : all) result.append(bytes_of(bytes));
  return result;
}

nb::bytes broadcast(ProcessGroup& group, int64_t root, const nb::bytes& bytes) {
  std::vector<std::byte> memory(span_of(bytes).begin(), span_of(bytes).end());
  {
    const nb::gil_scoped_release released;
    group.broadcast(root, memory);
  }
  return bytes_of(memory);
}

nb::bytes received(ProcessGroup& group, int64_t from, int tag, int64_t size) {
  if (size < 0) {
    throw Error(ErrorCode::usage, "a message of " + std::to_string(size) + " bytes");
  }
  std::vector<std::byte> memory(static_cast<size_t>(size));
  {
    const nb::gil_scoped_release released;
    group.recv(from, tag, memory);
  }
  return bytes_of(memory);
}

void send(ProcessGroup& group, int64_t to, int tag, const nb::bytes& bytes) {
  const std::span<const std::byte> sent = span_of(bytes);
  const nb::gil_scoped_release released;
  group.send(to, tag, sent);
}

Reduction reduction_called(const std::string& name) {
  if (name == "sum") return Reduction::sum;
  if (name == "min") return Reduction::min;
  if (name == "max") return Reduction::max;
  throw Error(ErrorCode::usage, "reduction '" + name + "', needed 'sum', 'min' or 'max'");
}

std::vector<int64_t> all_reduce(ProcessGroup& group, const std::string& reduction,
                                const std::vector<int64_t>& values) {
  return group.all_reduce(reduction_called(reduction), values);
}

}  // namespace

void bind_groups(nb::module_& module) {
  using Unlocked = nb::call_guard<nb::gil_scoped_release>;
  nb::class_<ProcessGroup>(module, "ProcessGroup",
                           "Ranks that exchange bytes; all make the same calls in the same order.")
      .def_prop_ro("rank", &ProcessGroup::rank, "This process's place.")
      .def_prop_ro("size", &ProcessGroup::size, "Number of ranks.")
      .def("all_gather", &all_gather, nb::arg("mine"),
           nb::sig("def all_gather(self, mine: bytes) -> list[bytes]"),
           "What each rank gives, by rank.")
      .def("broadcast", &broadcast, nb::arg("root"), nb::arg("mine"),
           "What `root` gives; all give as many bytes.")
      .def("all_reduce", &all_reduce, nb::arg("reduction"), nb::arg("values"), Unlocked(),
           "Of each value the 'sum', 'min' or 'max' over all ranks, on all of them.")
      .def("send", &send, nb::arg("to"), nb::arg("tag"), nb::arg("message"),
           nb::sig("def send(self, to: int, tag: int, message: bytes) -> None"),
           "One message, with a tag below 1024; may wait until it is received.")
      .def("recv", &received, nb::arg("from_"), nb::arg("tag"), nb::arg("size"),
           "The next message of a rank with this tag; of `size` bytes.")
      .def("barrier", &ProcessGroup::barrier, Unlocked(), "Returns when all ranks have called it.")
      .def(
          "sub_group",
          [](ProcessGroup& group, const std::vector<int64_t>& ranks) {
            return group.sub_group(ranks);
          },
          nb::arg("ranks"), Unlocked(), "A group of some ranks; a call of those together.")
      .def(
          "abort",
          [](ProcessGroup& group, const std::string& reason) {
            group.abort(Error(ErrorCode::cancelled, reason));
          },
          nb::arg("reason"), Unlocked(),
          "Ends the group: whoever waits, or calls later, raises CancelledError with the reason.");
  module.def("python_group", &python_group, nb::arg("transport"),
             "A group over an object with rank, size, exchange(outgoing, incoming) and "
             "abort(reason).");
}

}  // namespace weightloom::python
