#include "weightloom/sharding/layout_manifest.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "weightloom/base/error.h"
#include "weightloom/base/quote.h"
#include "weightloom/mapping/strict_json_internal.h"
#include "weightloom/safetensors/rank_files.h"
#include "weightloom/sharding/placements_internal.h"

namespace weightloom {
namespace {

using internal::StrictObject;
using nlohmann::json;
using nlohmann::ordered_json;

constexpr std::string_view kFormat = "weightloom.layout/1";

MeshSet meshes_of(const StrictObject& manifest) {
  if (manifest.has("mesh") == manifest.has("meshes")) {
    manifest.refuse("needs one of 'mesh' and 'meshes'");
  }
  if (manifest.has("mesh")) {
    return MeshSet(internal::mesh_from_json(manifest.at("mesh"), manifest.where()));
  }
  std::vector<NamedMesh> meshes;
  for (const json& entry : manifest.list("meshes")) {
    const std::string where = manifest.where() + ": 'meshes'";
    const StrictObject named(entry, where, ErrorCode::format, {"name", "axes"});
    meshes.push_back({named.text("name"), internal::mesh_from_json(named.at("axes"), where)});
  }
  try {
    return MeshSet::make(std::move(meshes));
  } catch (const Error& error) {
    manifest.refuse(error.what());
  }
}

Shape shape_of(const StrictObject& tensor, DType dtype) {
  Shape shape = tensor.integers("shape");
  if (!checked_bytes(dtype, shape)) {
    tensor.refuse(fmt::format("{} {} is no shape, or does not fill whole bytes", to_string(dtype),
                              to_string(shape)));
  }
  return shape;
}

ShardedTensor tensor_of(const std::string& name, const json& value, std::string_view file) {
  const std::string where = fmt::format("{}: tensor {}", file, quote(name));
  const StrictObject entry(value, where, ErrorCode::format,
                           {"shape", "dtype", "placements", "mesh"});
  ShardedTensor tensor{name, DType::F32, {}, {}};
  const std::string dtype = entry.text("dtype");
  const auto known = parse_dtype(dtype);
  if (!known) entry.refuse(fmt::format("'{}' is no dtype", dtype));
  tensor.dtype = *known;
  tensor.shape = shape_of(entry, *known);
  tensor.sharding.steps = internal::steps_from_json(entry.list("placements"), where);
  if (entry.has("mesh")) tensor.sharding.mesh = entry.text("mesh");
  return tensor;
}

ordered_json tensor_json(const ShardedTensor& tensor) {
  ordered_json entry = {{"shape", tensor.shape},
                        {"dtype", to_string(tensor.dtype)},
                        {"placements", internal::to_json(tensor.sharding.steps)}};
  if (!tensor.sharding.mesh.empty()) entry["mesh"] = tensor.sharding.mesh;
  return entry;
}

ordered_json meshes_json(const MeshSet& meshes) {
  ordered_json list = ordered_json::array();
  for (const auto& [name, mesh] : meshes.meshes()) {
    list.push_back({{"name", name}, {"axes", internal::to_json(mesh)}});
  }
  return list;
}

}  // namespace

LayoutManifest parse_manifest(std::string_view text, std::string_view file) {
  const json value = internal::parse_json_object(text, file, ErrorCode::format);
  const StrictObject object(value, std::string(file), ErrorCode::format,
                            {"format", "mesh", "meshes", "tensors"});
  if (object.text("format") != kFormat) {
    object.refuse(fmt::format("format is '{}', not '{}'", object.text("format"), kFormat));
  }
  LayoutManifest manifest;
  manifest.meshes = meshes_of(object);
  const json& tensors = object.at("tensors");
  if (!tensors.is_object()) object.refuse("'tensors' must be an object");
  for (const auto& [name, entry] : tensors.items()) {
    manifest.tensors.push_back(tensor_of(name, entry, file));
  }
  std::ranges::sort(manifest.tensors, {}, &ShardedTensor::name);
  return manifest;
}

std::string format_manifest(const LayoutManifest& manifest) {
  const bool is_one = manifest.meshes.meshes().size() == 1;
  std::string text = fmt::format("{{\"format\": \"{}\",\n\"{}\": {},\n\"tensors\": {{", kFormat,
                                 is_one ? "mesh" : "meshes",
                                 is_one ? internal::to_json(manifest.meshes.first()).dump()
                                        : meshes_json(manifest.meshes).dump());
  std::string_view before = "\n";
  for (const ShardedTensor& tensor : manifest.tensors) {
    text += fmt::format("{}{}: {}", before, json(tensor.name).dump(), tensor_json(tensor).dump());
    before = ",\n";
  }
  return text + "\n}}\n";
}

}  // namespace weightloom
