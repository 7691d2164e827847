#include "weightloom/plan/dump.h"

#include <iterator>

#include <fmt/format.h>

#include "weightloom/layout/notation.h"

namespace weightloom {

std::string dump(const CopyProgram& program) {
  std::string text;
  auto out = std::back_inserter(text);
  int64_t place = 0;
  for (const ProgramSource& source : program.sources()) {
    fmt::format_to(out, "source {} '{}' {} {} file {} '{}' [{}, {})\n", place++, source.name,
                   to_string(source.dtype), to_string(source.shape), source.file,
                   program.files()[static_cast<size_t>(source.file)].name, source.offset_bytes,
                   source.offset_bytes + source.size_bytes);
  }
  for (const ProgramTarget& target : program.targets()) {
    fmt::format_to(out, "target '{}' {} {}", target.name, to_string(target.dtype),
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
  return text;
}

}  // namespace weightloom
