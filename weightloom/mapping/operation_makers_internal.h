// The JSON behind OperationParameters. Private to the room.
#pragma once

#include "weightloom/mapping/operation_makers.h"
#include "weightloom/mapping/strict_json_internal.h"

namespace weightloom {

struct OperationParameters::Json {
  internal::StrictObject object;
};

namespace internal {

/// A number of config.json's, or one written down.
/// Errors: mapping, at `where`.
ConfigNumber read_number(const nlohmann::json& value, const std::string& where);
/// A list of operations, as converters have it; `where` names the list.
/// Errors: mapping, at the place.
std::vector<OperationPtr> read_operations(const nlohmann::json& list, const std::string& where,
                                          const OperationMakers& makers);

}  // namespace internal
}  // namespace weightloom
