// Any bytes are a manifest, placements, LoadSpecs, a parallel plan or a mesh, or a refusal; what
// was read survives writing and reading; and of a small tensor the parts that owners hold make up
// the whole, or merging refuses. The first byte says which kind of text the others are.
#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>
#include <vector>

#include "weightloom/base/error.h"
#include "weightloom/sharding/hf_load_plan.h"
#include "weightloom/sharding/layout_manifest.h"
#include "weightloom/sharding/load_specs_json.h"
#include "weightloom/sharding/placements.h"
#include "weightloom/sharding/tp_plan.h"

namespace {

using namespace weightloom;

constexpr int64_t kMostElements = 4096;
constexpr int64_t kMostRanks = 16;

void require(bool truth) {
  if (!truth) std::abort();
}

bool is_small(const Shape& shape) {
  int64_t elements = 1;
  for (const int64_t size : shape) {
    if (size > kMostElements || (elements *= std::max<int64_t>(size, 1)) > kMostElements) {
      return false;
    }
  }
  return true;
}

int64_t stored_elements(const LocalPart& part) {
  int64_t elements = 1;
  for (const Segments& segments : part) {
    int64_t rows = 0;
    for (const Segment& segment : segments) rows += segment.is_pad ? 0 : segment.size;
    elements *= rows;
  }
  return elements;
}

/// Owners hold every element, each once but for rows that a table gives twice.
void check_partition(const Sharding& sharding, const MeshSet& meshes, const Shape& shape) {
  std::vector<SourceId> sources;
  int64_t held = 0;
  for (int64_t rank = 0; rank < meshes.size(); ++rank) {
    sources.push_back(static_cast<SourceId>(rank));
    const auto part = local_part(sharding, meshes, shape, rank);
    if (part && owner_of(sharding, meshes, rank) == rank) held += stored_elements(*part);
  }
  const Layout whole = merged(sharding, meshes, shape, sources);
  int64_t elements = 1;
  for (const int64_t size : shape) elements *= size;
  require(whole.shape() == shape && held >= elements);
}

void check_manifest(std::string_view text) {
  const LayoutManifest manifest = parse_manifest(text, "fuzz");
  require(parse_manifest(format_manifest(manifest), "again") == manifest);
  if (manifest.meshes.size() > kMostRanks) return;
  for (const ShardedTensor& tensor : manifest.tensors) {
    if (!is_small(tensor.shape)) continue;
    try {
      check_partition(tensor.sharding, manifest.meshes, tensor.shape);
    } catch (const Error& error) {
      require(error.code() == ErrorCode::usage || error.code() == ErrorCode::checkpoint);
    }
  }
}

void check_load_specs(std::string_view text) {
  const std::vector<LoadSpec> specs = parse_load_specs(text, "fuzz");
  const std::string written = format_load_specs(specs);
  require(format_load_specs(parse_load_specs(written, "again")) == written);
  for (const LoadSpec& spec : specs) {
    if (!spec.is_bound() || !is_small(spec.global_shape())) continue;
    try {
      const HFLoadPlan plan = plan_hf_load(spec);
      require(plan.target_shape == local_shape(local_part(spec)));
    } catch (const Error&) {
      // An adapter that does not fit, or keys that do not divide.
    }
  }
}

void check(uint8_t kind, std::string_view text) {
  switch (kind % 5) {
    case 0:
      return check_manifest(text);
    case 1:
      return check_load_specs(text);
    case 2:
      return void(parse_placements(text, "fuzz"));
    case 3:
      return void(parse_tp_plan(text, "fuzz"));
    default: {
      const MeshSet meshes = MeshSet::parse(text);
      require(MeshSet::parse(to_string(meshes)) == meshes);
    }
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  const std::string_view text(reinterpret_cast<const char*>(data) + 1, size - 1);
  try {
    check(data[0], text);
  } catch (const Error& error) {
    require(error.code() == ErrorCode::format || error.code() == ErrorCode::usage ||
            error.code() == ErrorCode::mapping);
  }
  return 0;
}
