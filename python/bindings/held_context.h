// What a Python operation may know besides the tensors, with a config that it may keep.
#pragma once

#include <string>
#include <vector>

#include "weightloom/mapping/model_config.h"
#include "weightloom/mapping/operation.h"

namespace weightloom::python {

/// An OperationContext that owns what it points at.
struct HeldContext {
  explicit HeldContext(const OperationContext& context)
      : config(*context.config),
        targets(context.targets),
        target_patterns(context.target_patterns) {}

  ModelConfig config;
  int targets;
  std::vector<std::string> target_patterns;
};

}  // namespace weightloom::python
