#include "weightloom/base/error.h"

#include <utility>

namespace weightloom {

std::string_view to_string(ErrorCode code) {
  switch (code) {
    case ErrorCode::usage:
      return "usage";
    case ErrorCode::format:
      return "format";
    case ErrorCode::checkpoint:
      return "checkpoint";
    case ErrorCode::mapping:
      return "mapping";
    case ErrorCode::plan:
      return "plan";
    case ErrorCode::not_found:
      return "not_found";
    case ErrorCode::exists:
      return "exists";
    case ErrorCode::permission:
      return "permission";
    case ErrorCode::no_space:
      return "no_space";
    case ErrorCode::io:
      return "io";
    case ErrorCode::cancelled:
      return "cancelled";
    case ErrorCode::unsupported:
      return "unsupported";
  }
  __builtin_unreachable();
}

std::string_view to_string(Severity severity) {
  switch (severity) {
    case Severity::error:
      return "error";
    case Severity::strict:
      return "strict";
    case Severity::report:
      return "report";
  }
  __builtin_unreachable();
}

Error::Error(ErrorCode code, const std::string& message, std::string next_step,
             std::vector<Finding> findings)
    : std::runtime_error(message),
      code_(code),
      next_step_(std::move(next_step)),
      findings_(std::move(findings)) {}

}  // namespace weightloom
