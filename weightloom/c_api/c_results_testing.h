// For tests of the C interface: a failure as values.
#pragma once

#include <string>

#include "weightloom/c_api.h"

namespace weightloom::testing {

/// Calls with an error to fill; what was said, and frees it.
struct Outcome {
  wl_status status = WL_OK;
  std::string code;
  std::string message;
  std::string next_step;
  std::string findings;
};

template <class Call>
Outcome outcome_of(Call call) {
  wl_error* error = nullptr;
  const wl_status status = call(&error);
  Outcome outcome = {status, wl_error_code(error), wl_error_message(error),
                     wl_error_next_step(error), wl_error_findings_json(error)};
  wl_error_free(&error);
  return outcome;
}

/// A handle that is freed with its test.
template <class Handle, void (*free_handle)(Handle**)>
struct Owned {
  Handle* handle = nullptr;

  Owned() = default;
  Owned(const Owned&) = delete;
  Owned& operator=(const Owned&) = delete;
  ~Owned() { free_handle(&handle); }
  operator const Handle*() const { return handle; }
};
using OwnedCheckpoint = Owned<wl_checkpoint, wl_checkpoint_free>;
using OwnedPlan = Owned<wl_plan, wl_plan_free>;

}  // namespace weightloom::testing
