#include <exception>
#include <memory>
#include <new>
#include <utility>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "weightloom/c_api/c_error_internal.h"
#include "weightloom/version.h"

namespace weightloom::c_api {
namespace {

wl_status status_of(ErrorCode code) noexcept {
  switch (code) {
    case ErrorCode::usage:
      return WL_ERROR_USAGE;
    case ErrorCode::format:
      return WL_ERROR_FORMAT;
    case ErrorCode::checkpoint:
      return WL_ERROR_CHECKPOINT;
    case ErrorCode::mapping:
      return WL_ERROR_MAPPING;
    case ErrorCode::plan:
      return WL_ERROR_PLAN;
    case ErrorCode::not_found:
      return WL_ERROR_NOT_FOUND;
    case ErrorCode::exists:
      return WL_ERROR_EXISTS;
    case ErrorCode::permission:
      return WL_ERROR_PERMISSION;
    case ErrorCode::no_space:
      return WL_ERROR_NO_SPACE;
    case ErrorCode::io:
      return WL_ERROR_IO;
    case ErrorCode::cancelled:
      return WL_ERROR_CANCELLED;
    case ErrorCode::unsupported:
      return WL_ERROR_UNSUPPORTED;
  }
  return WL_ERROR_IO;
}

/// Told when there is no memory to tell more; never freed.
wl_error& out_of_memory() noexcept {
  static wl_error error = {WL_ERROR_NO_MEMORY, "no_memory", "out of memory", "", "[]"};
  return error;
}

wl_status tell(wl_error** error, wl_status status, const Error& what) {
  if (error != nullptr) {
    auto told = std::make_unique<wl_error>();
    told->status = status;
    told->code = to_string(what.code());
    told->message = what.what();
    told->next_step = what.next_step();
    told->findings_json = findings_json(what.findings());
    *error = told.release();
  }
  return status;
}

wl_status tell_current(wl_error** error) {
  try {
    throw;
  } catch (const Error& known) {
    return tell(error, status_of(known.code()), known);
  } catch (const std::bad_alloc&) {
    throw;
  } catch (const std::exception& other) {
    return tell(error, WL_ERROR_IO, Error(ErrorCode::io, other.what()));
  } catch (...) {
    return tell(error, WL_ERROR_IO, Error(ErrorCode::io, "a callback threw"));
  }
}

}  // namespace

std::string findings_json(std::span<const Finding> findings) {
  auto list = nlohmann::ordered_json::array();
  for (const Finding& finding : findings) {
    nlohmann::ordered_json entry;
    entry["severity"] = to_string(finding.severity);
    entry["code"] = finding.code;
    entry["tensor"] = finding.tensor;
    entry["file"] = finding.file;
    entry["message"] = finding.message;
    list.push_back(std::move(entry));
  }
  return list.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace);
}

wl_status report_exception(wl_error** error) noexcept {
  try {
    return tell_current(error);
  } catch (...) {
    if (error != nullptr) *error = &out_of_memory();
    return WL_ERROR_NO_MEMORY;
  }
}

void require(const void* argument, const char* name) {
  if (argument == nullptr) throw Error(ErrorCode::usage, fmt::format("{} is NULL", name));
}

}  // namespace weightloom::c_api

using weightloom::c_api::out_of_memory;

const char* wl_version(void) { return WEIGHTLOOM_VERSION; }

wl_status wl_error_status(const wl_error* error) {
  return error == nullptr ? WL_OK : error->status;
}
const char* wl_error_code(const wl_error* error) {
  return error == nullptr ? "" : error->code.c_str();
}
const char* wl_error_message(const wl_error* error) {
  return error == nullptr ? "" : error->message.c_str();
}
const char* wl_error_next_step(const wl_error* error) {
  return error == nullptr ? "" : error->next_step.c_str();
}
const char* wl_error_findings_json(const wl_error* error) {
  return error == nullptr ? "[]" : error->findings_json.c_str();
}

void wl_error_free(wl_error** error) {
  if (error == nullptr) return;
  if (*error != &out_of_memory()) delete *error;
  *error = nullptr;
}
