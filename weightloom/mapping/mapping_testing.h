// Helpers of this room's tests: small checkpoints as numbers, and the numbers that a layout
// gathers.
#pragma once

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "weightloom/layout/layout_testing.h"
#include "weightloom/layout/operations.h"
#include "weightloom/mapping/apply.h"

namespace weightloom::testing {

/// Tensors by name; in this order the leaves get their source ids.
using Arrays = std::map<std::string, Dense>;

inline std::vector<Dense> values_of(const Arrays& arrays) {
  std::vector<Dense> values;
  for (const auto& [name, array] : arrays) values.push_back(array);
  return values;
}

/// The arrays as leaves, in their order: whole tensors.
inline std::vector<NamedLayout> leaves_of(const Arrays& arrays, DType dtype = DType::F32) {
  std::vector<NamedLayout> leaves;
  for (const auto& [name, array] : arrays) {
    leaves.push_back({name, dtype, identity(static_cast<SourceId>(leaves.size()), array.shape)});
  }
  return leaves;
}

/// The numbers of a result.
inline Arrays gather(const MappingResult& result, const Arrays& sources) {
  Arrays arrays;
  const auto values = values_of(sources);
  for (const auto& tensor : result.tensors) arrays[tensor.name] = gather(tensor.layout, values);
  return arrays;
}

/// Leaves of one shape, for tests of names.
inline std::vector<NamedLayout> leaves_named(const std::vector<std::string>& names,
                                             const Shape& shape = {2, 2}) {
  std::vector<NamedLayout> leaves;
  for (const auto& name : names) {
    leaves.push_back({name, DType::F32, identity(static_cast<SourceId>(leaves.size()), shape)});
  }
  return leaves;
}

inline std::vector<std::string> names_of(const MappingResult& result) {
  std::vector<std::string> names;
  for (const auto& tensor : result.tensors) names.push_back(tensor.name);
  return names;
}

inline WeightRenaming renaming(std::string source, std::string target) {
  return {{std::move(source)}, {std::move(target)}};
}

inline WeightConverter converter(std::vector<std::string> sources, std::vector<std::string> targets,
                                 std::vector<OperationPtr> operations) {
  return {std::move(sources), std::move(targets), std::move(operations)};
}

}  // namespace weightloom::testing
