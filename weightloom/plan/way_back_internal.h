// The way back that a record states: the relation that its headers and mapping give, inverted over
// the tensors that are there. Private to the room.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "weightloom/mapping/apply.h"
#include "weightloom/mapping/provenance.h"
#include "weightloom/mapping/runtime_names.h"

namespace weightloom {

/// The names of the model, as the rules knew them when the tensors called `names` were made.
RuntimeNames recorded_names(const Provenance& record, std::vector<std::string> names);

struct WayBack {
  std::vector<NamedLayout> targets;    // the original's tensors; none if there are errors
  std::vector<DType> original_dtypes;  // of targets, in their order
  std::vector<Finding> findings;       // each disagreement of the record with what is there
  int64_t passed_through = 0;          // tensors whose name the mapping left
};

/// `tensors[i]` is what is there; `names[i]` what it is called; nothing: as it is stored.
/// Law: without errors each element of each target comes from where the record says it went.
WayBack way_back(const Provenance& record, std::span<const NamedLayout> tensors,
                 std::span<const std::optional<std::string>> names, int threads);

}  // namespace weightloom
