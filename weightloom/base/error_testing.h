// Runs code that must refuse, and gives the refusal.
#pragma once

#include <optional>

#include "weightloom/base/error.h"

namespace weightloom {

/// The Error that `run` throws; nothing if it throws none.
template <class Run>
std::optional<Error> refusal_of(Run run) {
  try {
    run();
  } catch (const Error& error) {
    return error;
  }
  return std::nullopt;
}

}  // namespace weightloom
