// Says how tensors are spread over ranks, for python/tests/test_parallel_plans.py and
// test_dtensor_arithmetic.py.
//
// stdin: a request a line; stdout: an answer a line, or {"error": text}.
//   {"mesh": MESHES, "architecture": CLASS, "config": {…}, "tensors": [[name, shape], …]}
//     → {"shardings": [{"mesh": NAME, "placements": […]}, …], "findings": [message, …]}
//   the same with "plan": {pattern: style, …} in place of "architecture" and "config"
//   {"mesh": MESHES, "placements": […], "shape": […]}
//     → {"parts": [per rank: per dim: [[begin, size], …], …]}
#include <iostream>
#include <string>

#include <nlohmann/json.hpp>

#include "weightloom/sharding/model_plans.h"
#include "weightloom/sharding/placements_internal.h"

namespace {

using nlohmann::json;
using weightloom::MeshSet;
using weightloom::Shape;

weightloom::TpPlan plan_of(const json& request) {
  if (request.contains("plan")) {
    return weightloom::parse_tp_plan(request["plan"].dump(), "plan.json");
  }
  const auto config = weightloom::ModelConfig::parse(request["config"].dump(), "config.json");
  return tp_plan_of(weightloom::model_tree(weightloom::ModelCatalog::built_in(),
                                           request["architecture"].get<std::string>(), config));
}

json answer_plan(const json& request, const MeshSet& meshes) {
  std::vector<weightloom::NamedShape> tensors;
  for (const json& tensor : request["tensors"]) {
    tensors.push_back({tensor[0].get<std::string>(), tensor[1].get<Shape>()});
  }
  const auto planned = shardings_for(plan_of(request), meshes, tensors);
  json answer = {{"shardings", json::array()}, {"findings", json::array()}};
  for (const auto& sharding : planned.shardings) {
    answer["shardings"].push_back(
        {{"mesh", sharding.mesh}, {"placements", weightloom::internal::to_json(sharding.steps)}});
  }
  for (const auto& finding : planned.findings) answer["findings"].push_back(finding.message);
  return answer;
}

json answer_parts(const json& request, const MeshSet& meshes) {
  const weightloom::Sharding sharding{
      "", weightloom::internal::steps_from_json(request["placements"], "request")};
  const Shape shape = request["shape"].get<Shape>();
  json parts = json::array();
  for (int64_t rank = 0; rank < meshes.size(); ++rank) {
    json& part = parts.emplace_back(json::array());
    const auto held = local_part(sharding, meshes, shape, rank).value();
    for (const auto& segments : held) {
      json& dim = part.emplace_back(json::array());
      for (const auto& segment : segments) dim.push_back({segment.begin, segment.size});
    }
  }
  return {{"parts", parts}};
}

}  // namespace

int main() {
  for (std::string line; std::getline(std::cin, line);) {
    json answer;
    try {
      const json request = json::parse(line);
      const MeshSet meshes = MeshSet::parse(request["mesh"].get<std::string>());
      answer = request.contains("tensors") ? answer_plan(request, meshes)
                                           : answer_parts(request, meshes);
    } catch (const std::exception& error) {
      answer = {{"error", error.what()}};
    }
    std::cout << answer.dump() << '\n';
  }
}
