// What the handles hold. Immutable once made, so that threads share them.
#pragma once

#include <memory>
#include <string>

#include "weightloom/c_api.h"
#include "weightloom/plan/conversion.h"
#include "weightloom/safetensors/checkpoint.h"

struct wl_checkpoint {
  std::shared_ptr<const weightloom::Checkpoint> checkpoint;
  std::string findings_json;
};

struct wl_plan {
  std::shared_ptr<const weightloom::Checkpoint> source;  // which the caller may have freed
  weightloom::Conversion conversion;
  bool lenient = false;
  std::string findings_json;
};
