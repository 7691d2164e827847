// Exceptions end here: what C sees of a failure.
#pragma once

#include <span>
#include <string>

#include "weightloom/base/error.h"
#include "weightloom/c_api.h"

struct wl_error {
  wl_status status = WL_OK;
  std::string code;
  std::string message;
  std::string next_step;
  std::string findings_json = "[]";
};

namespace weightloom::c_api {

/// `[{severity, code, tensor, file, message}, …]`; bytes that are no UTF-8 become U+FFFD.
std::string findings_json(std::span<const Finding> findings);

/// The failure that is being handled, as a status; its words go to `error` where there is one.
wl_status report_exception(wl_error** error) noexcept;

/// Runs the body of a function of the interface.
template <class Body>
wl_status guarded(wl_error** error, Body body) noexcept {
  if (error != nullptr) *error = nullptr;
  try {
    body();
    return WL_OK;
  } catch (...) {
    return report_exception(error);
  }
}

/// Errors: usage if `argument` is NULL.
void require(const void* argument, const char* name);

}  // namespace weightloom::c_api
