// What `convert` says when it is done.
#pragma once

#include <cstdint>
#include <string>

#include "weightloom/execute/convert.h"
#include "weightloom/plan/conversion.h"

namespace weightloom::cli {

/// A conversion that is over.
struct FinishedConversion {
  std::string destination;
  std::string mapping;
  Side from = Side::unknown;
  Side to = Side::unknown;
  int64_t renamed = 0;
  ConvertReport report;
  double seconds = 0;
  int64_t peak_memory_bytes = 0;
};

/// The JSON value of `convert --json`.
std::string convert_json(const FinishedConversion& run);
/// `out: 291 tensors in 4 files (3 linked, 1 written), 3.40 GiB, 1.8 s, mapping mixtral, hub →
/// runtime` and a newline.
std::string convert_line(const FinishedConversion& run);

}  // namespace weightloom::cli
