// Placements and meshes as JSON values. Private to the library.
#pragma once

#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "weightloom/sharding/sharding.h"

namespace weightloom::internal {

/// The steps of a list of placements; `where` begins every message.
/// Errors: format.
std::vector<ShardingStep> steps_from_json(const nlohmann::json& list, const std::string& where);
/// As steps_from_json reads it.
nlohmann::ordered_json to_json(const std::vector<ShardingStep>& steps);

/// `[["fsdp", 4], ["tp", 2]]`.
/// Errors: format.
Mesh mesh_from_json(const nlohmann::json& list, const std::string& where);
nlohmann::ordered_json to_json(const Mesh& mesh);

}  // namespace weightloom::internal
