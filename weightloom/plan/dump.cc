#include "weightloom/plan/dump.h"

#include <iterator>

#include <fmt/format.h>

#include "weightloom/layout/notation.h"

namespace weightloom {
namespace {

void dump_target(std::string_view kind, const CopyProgram& program, const ProgramTarget& target,
                 std::string& text) {
  auto out = std::back_inserter(text);
  fmt::format_to(out, "{} '{}' {} {}", kind, target.name, to_string(target.dtype),
                 to_string(target.shape));
  if (target.family >= 0) fmt::format_to(out, " family {}", target.family);
  fmt::format_to(out, "\n");
  for (const Region& region : target.regions) {
    const RegionType type = program.type_of(target, region);
    fmt::format_to(out, "  {}", to_string(region));
    if (type.casts()) fmt::format_to(out, " cast {}", to_string(type.from));
    fmt::format_to(out, "\n");
  }
}

}  // namespace

std::string dump(const CopyProgram& program) {
  std::string text;
  auto out = std::back_inserter(text);
  int64_t place = 0;
  for (const ProgramSource& source : program.sources()) {
    if (source.is_computed()) {
      fmt::format_to(out, "source {} '{}' {} {} node {} result {}\n", place++, source.name,
                     to_string(source.dtype), to_string(source.shape), source.node, source.result);
      continue;
    }
    fmt::format_to(out, "source {} '{}' {} {} file {} '{}' [{}, {})\n", place++, source.name,
                   to_string(source.dtype), to_string(source.shape), source.file,
                   program.files()[static_cast<size_t>(source.file)].name, source.offset_bytes,
                   source.offset_bytes + source.size_bytes);
  }
  int64_t node_place = 0;
  for (const ProgramNode& node : program.nodes()) {
    fmt::format_to(out, "node {} {} {} {}\n", node_place++, node.encodes ? "encode" : "decode",
                   to_string(node.shape), to_string(node.codec));
    for (const ProgramTarget& input : node.inputs) dump_target("  input", program, input, text);
  }
  for (const ProgramTarget& target : program.targets()) {
    dump_target("target", program, target, text);
  }
  return text;
}

}  // namespace weightloom
