// Compilation: named layouts over source tensors become a CopyProgram, with all findings.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "weightloom/base/error.h"
#include "weightloom/base/export.h"
#include "weightloom/mapping/apply.h"
#include "weightloom/plan/program.h"

namespace weightloom WEIGHTLOOM_EXPORT {

/// What compile() gives.
struct Compiled {
  CopyProgram program;            ///< of the targets without fault
  std::vector<Finding> findings;  ///< all of them, by target name
};

/// True for the names of targets that may differ from their sources in dtype, by a cast.
using MayCast = std::function<bool(const std::string& target)>;

/// How sources are stored that do not stand in files as they are: those of a sharded folder.
struct Storage {
  std::vector<ProgramSource> parts;  ///< what stands in the files
  std::vector<Layout> wholes;        ///< of each source, over the parts
};

/// A node before it is lowered: its inputs as layouts over places in the sources.
struct NodeLayouts {
  BlockCodec codec;                 ///< what it computes
  bool encodes = false;             ///< from values to operands
  Shape shape;                      ///< of the values
  std::vector<NamedLayout> inputs;  ///< what it takes; names are for messages
};

/// Checks and lowers. Found, all as errors: a target element with no writer or several
/// (`target_not_written`, `target_written_twice`), a source element read by none or several targets
/// (`source_not_used`, which is strict where a whole tensor is left out, and `source_used_twice`),
/// dtypes that differ and no cast that was asked for leads from one to the other
/// (`dtype_mismatch`), two targets of one name (`duplicate_target`), a cut inside a byte
/// (`inside_byte`).
/// Shape: `targets` are layouts over places in `sources`; the program keeps their order. With
/// `storage` its sources are the parts, and `file` and offset of `sources` mean nothing. Sources
/// that `nodes` compute stand last. What a node takes is read once by it, as by a target; its
/// results are held to the same rule.
Compiled compile(std::vector<ProgramFile> files, std::vector<ProgramSource> sources,
                 std::vector<NamedLayout> targets, const MayCast& may_cast = {},
                 std::optional<Storage> storage = std::nullopt,
                 std::vector<NodeLayouts> nodes = {});

/// The program of some targets of another: `keep[i]` says whether target i stays.
CopyProgram select_targets(const CopyProgram& program, const std::vector<bool>& keep);

/// True if a finding refuses the plan.
bool is_refusal(const Finding& finding, bool lenient) noexcept;

}  // namespace weightloom
