// The module comm_torch: the tests of process groups once more, on ranks of torch.distributed. They
// are compiled into it; each process calls run().
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>
#include <nanobind/nanobind.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include "python/bindings/python_group.h"
#include "weightloom/comm/group_runs_testing.h"

namespace nb = nanobind;

namespace weightloom::testing {
namespace {

/// Gives a transport of a group that no test has used; set while run() runs.
const nb::object* new_transport = nullptr;

std::unique_ptr<ProcessGroup> new_group() {
  const nb::gil_scoped_acquire locked;
  return python::python_group((*new_transport)());
}

/// Runs the tests that GoogleTest's options choose; what RUN_ALL_TESTS gives.
int run(const nb::object& transports, std::vector<std::string> options) {
  std::vector<char*> arguments;
  for (std::string& option : options) arguments.push_back(option.data());
  arguments.push_back(nullptr);
  int count = static_cast<int>(options.size());
  ::testing::InitGoogleTest(&count, arguments.data());
  new_transport = &transports;
  const nb::gil_scoped_release released;
  return RUN_ALL_TESTS();
}

}  // namespace

void on_every_rank(const std::function<void(ProcessGroup&)>& body) {
  const auto group = new_group();
  run_guarded(*group, [&] { body(*group); });
}

}  // namespace weightloom::testing

NB_MODULE(comm_torch, module) {
  module.doc() = "The C++ tests of process groups, for ranks of torch.distributed.";
  module.def("run", &weightloom::testing::run, nb::arg("new_transport"), nb::arg("options"),
             "Runs the tests, each on a group over a transport that new_transport() gives.");
}
