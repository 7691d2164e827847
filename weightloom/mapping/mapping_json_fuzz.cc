// Any bytes are a mapping or a refusal; a mapping survives writing and reading, and applying it to
// a few names ends soon, whatever its patterns are.
#include <cstdlib>
#include <string_view>

#include "weightloom/base/error.h"
#include "weightloom/layout/operations.h"
#include "weightloom/mapping/apply.h"

namespace {

using namespace weightloom;

std::vector<NamedLayout> few_leaves() {
  std::vector<NamedLayout> leaves;
  for (const char* name : {"a.experts.0.w1.weight", "a.experts.0.w1.weight_scale",
                           "a.experts.1.w1.weight", "a.experts.0.w3.weight", "b.größe"}) {
    leaves.push_back({name, DType::F32, identity(static_cast<SourceId>(leaves.size()), {4, 6})});
  }
  return leaves;
}

void require(bool truth) {
  if (!truth) std::abort();
}

void apply_both_ways(const Mapping& mapping) {
  try {
    const auto result = apply_mapping(mapping, few_leaves(), {});
    (void)apply_mapping(mapping.reversed(), result.tensors, {});
  } catch (const Error&) {
    // No way back, or a pattern beyond its limits.
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  try {
    const Mapping mapping = Mapping::parse(text, "fuzz.json");
    require(Mapping::parse(mapping.to_json(), "again.json").to_json() == mapping.to_json());
    apply_both_ways(mapping);
  } catch (const Error& error) {
    require(error.code() == ErrorCode::mapping);
  }
  return 0;
}
