#include "weightloom/plan/compile.h"

#include <algorithm>
#include <optional>
#include <string_view>
#include <unordered_set>
#include <utility>

#include <fmt/format.h>

#include "weightloom/codec/cast.h"
#include "weightloom/layout/compose.h"
#include "weightloom/layout/coverage.h"
#include "weightloom/layout/operations.h"
#include "weightloom/plan/lower_internal.h"

namespace weightloom {
namespace {

Finding error_finding(std::string code, const std::string& tensor, std::string message) {
  return {Severity::error, std::move(code), tensor, "", std::move(message)};
}

std::string element_text(int64_t offset, const Shape& shape) {
  const auto strides = row_major_strides(shape);
  Shape at;
  for (size_t i = 0; i < shape.size(); ++i) at.push_back(offset / strides[i] % shape[i]);
  return to_string(at);
}

/// Who reads a source: nearly always one region that reads it whole, in order.
struct Readers {
  size_t whole = 0;
  std::vector<Region> partial;
};

bool reads_whole(const Region& region, const Shape& shape) {
  const int64_t size = elements(shape);
  if (region.source_offset != 0) return false;
  if (region.axes.empty()) return size == 1;
  const Axis& axis = region.axes[0];
  return region.axes.size() == 1 && axis.extent == size && axis.source_stride == 1;
}

/// A region that reads a source of `shape`, which is not empty, whole.
Region whole_of(const Shape& shape) {
  Region region;
  region.source = 0;
  if (const int64_t size = elements(shape); size > 1) region.axes.push_back({size, 1, 1});
  return region;
}

/// Compiles targets one by one and remembers who reads which source.
class Compiler {
 public:
  Compiler(std::vector<ProgramFile> files, std::vector<ProgramSource> sources,
           const MayCast& may_cast, std::optional<Storage> storage)
      : files_(std::move(files)),
        sources_(std::move(sources)),
        may_cast_(may_cast),
        storage_(std::move(storage)),
        readers_(sources_.size()) {
    if (storage_) add_computed_wholes();
  }

  void add(NamedLayout target) {
    if (!names_.insert(target.name).second) {
      return report("duplicate_target", target.name,
                    fmt::format("two targets have the name '{}'", target.name));
    }
    note_readers(target.layout);
    if (!check_coverage(target) || !check_dtypes(target)) return;
    emit(std::move(target));
  }

  void add(NodeLayouts node) {
    ProgramNode lowered{node.codec, node.encodes, std::move(node.shape), {}};
    for (NamedLayout& input : node.inputs) {
      note_readers(input.layout);
      auto made = check_coverage(input) ? lower(std::move(input)) : std::nullopt;
      lacks_input_ = lacks_input_ || !made;
      lowered.inputs.push_back(std::move(made).value_or(ProgramTarget{}));
    }
    nodes_.push_back(std::move(lowered));
  }

  Compiled finish() {
    for (size_t i = 0; i < sources_.size(); ++i) check_source(i);
    if (lacks_input_) targets_.clear();  // nodes could not be run
    if (storage_) store_computed();
    auto& stored = storage_ ? storage_->parts : sources_;
    return {
        CopyProgram(std::move(files_), std::move(stored), std::move(targets_), std::move(nodes_)),
        std::move(findings_)};
  }

 private:
  void report(std::string code, const std::string& tensor, std::string message) {
    findings_.push_back(error_finding(std::move(code), tensor, std::move(message)));
  }

  void note_readers(const Layout& layout) {
    for (const Region& region : layout.regions()) {
      if (region.is_pad()) continue;
      Readers& readers = readers_[static_cast<size_t>(region.source)];
      if (reads_whole(region, sources_[static_cast<size_t>(region.source)].shape)) {
        ++readers.whole;
      } else {
        readers.partial.push_back(region);
      }
    }
  }

  bool check_coverage(const NamedLayout& target) {
    const auto fault = coverage_fault(target.layout);
    if (!fault) return true;
    const std::string at = element_text(fault->offset, target.layout.shape());
    const bool hole = fault->times == 0;
    report(hole ? "target_not_written" : "target_written_twice", target.name,
           fmt::format("target '{}' {}: element {} is written {} times, needed once", target.name,
                       to_string(target.layout.shape()), at, fault->times));
    return false;
  }

  bool check_dtypes(const NamedLayout& target) {
    for (const Region& region : target.layout.regions()) {
      if (region.is_pad()) continue;
      const ProgramSource& source = sources_[static_cast<size_t>(region.source)];
      if (source.dtype == target.dtype || casts(target, source)) continue;
      report("dtype_mismatch", target.name,
             fmt::format("target '{}' is {}, but its source '{}' is {}", target.name,
                         to_string(target.dtype), source.name, to_string(source.dtype)));
      return false;
    }
    return true;
  }

  /// What is computed stands behind the parts.
  void store_computed() {
    for (ProgramSource& source : sources_) {
      if (source.is_computed()) storage_->parts.push_back(std::move(source));
    }
  }

  bool casts(const NamedLayout& target, const ProgramSource& source) const {
    return is_castable(source.dtype) && is_castable(target.dtype) && may_cast_ &&
           may_cast_(target.name);
  }

  /// Of a source of the program: a part, where sources are stored in parts.
  DType source_dtype(SourceId source) const { return source_at(source).dtype; }

  const ProgramSource& source_at(SourceId source) const {
    const auto place = static_cast<size_t>(source);
    if (!storage_) return sources_[place];
    const size_t parts = storage_->parts.size();
    return place < parts ? storage_->parts[place] : sources_[first_computed_ + place - parts];
  }

  /// With computed sources as wholes of their own, behind the parts.
  void add_computed_wholes() {
    first_computed_ = storage_->wholes.size();
    for (size_t i = first_computed_; i < sources_.size(); ++i) {
      const size_t place = storage_->parts.size() + i - first_computed_;
      storage_->wholes.push_back(identity(static_cast<SourceId>(place), sources_[i].shape));
    }
  }

  void emit(NamedLayout target) {
    if (auto made = lower(std::move(target))) targets_.push_back(*std::move(made));
  }

  std::optional<ProgramTarget> lower(NamedLayout target) {
    ProgramTarget result;
    result.shape = target.layout.shape();
    result.dtype = target.dtype;
    const auto size = checked_bytes(result.dtype, result.shape);
    if (storage_) target.layout = compose(target.layout, storage_->wholes);
    Lowered lowered = lower_to_bytes(std::move(target.layout), target.dtype,
                                     [this](SourceId source) { return source_dtype(source); });
    if (!size) {
      lowered.refusal = fmt::format("{} {} does not fill whole bytes", to_string(result.dtype),
                                    to_string(result.shape));
    }
    if (lowered.refusal) {
      report("inside_byte", target.name,
             fmt::format("target '{}': {}", target.name, *lowered.refusal));
      return std::nullopt;
    }
    result.name = std::move(target.name);
    result.size_bytes = *size;
    result.regions = std::move(lowered.regions);
    result.disjoint_hulls = hulls_are_disjoint(result.regions);
    result.family = family_of(result.regions);
    result.has_casts = std::ranges::any_of(result.regions, [&](const Region& region) {
      return !region.is_pad() && source_dtype(region.source) != result.dtype;
    });
    return result;
  }

  /// All results of an encoder are made together.
  int32_t family_of(const std::vector<Region>& regions) const {
    if (nodes_.empty() || regions.empty() || regions.front().is_pad()) return -1;
    const int32_t node = source_at(regions.front().source).node;
    return node >= 0 && nodes_[static_cast<size_t>(node)].encodes ? node : -1;
  }

  void check_source(size_t i) {
    const ProgramSource& source = sources_[i];
    const Readers& readers = readers_[i];
    if (readers.whole == 1 && readers.partial.empty()) return;
    std::vector<Region> regions = readers.partial;
    regions.insert(regions.end(), readers.whole, whole_of(source.shape));
    const auto fault = coverage_fault(elements(source.shape), regions);
    if (!fault) return;
    const bool unused = fault->times == 0;
    const bool is_left_out = readers.whole == 0 && readers.partial.empty();
    report(unused ? "source_not_used" : "source_used_twice", source.name,
           fmt::format("source '{}' {}: element {} goes to {} targets, needed one", source.name,
                       to_string(source.shape), element_text(fault->offset, source.shape),
                       fault->times));
    // A tensor that nothing wants may be left out on request; a part of one may not.
    if (is_left_out) findings_.back().severity = Severity::strict;
  }

  std::vector<ProgramFile> files_;
  std::vector<ProgramSource> sources_;
  const MayCast& may_cast_;
  std::optional<Storage> storage_;
  size_t first_computed_ = 0;  // of sources_, where they are stored in parts
  std::vector<ProgramNode> nodes_;
  bool lacks_input_ = false;      // one of the nodes, which is told by a finding
  std::vector<Readers> readers_;  // of each source
  std::unordered_set<std::string> names_;
  std::vector<ProgramTarget> targets_;
  std::vector<Finding> findings_;
};

}  // namespace

Compiled compile(std::vector<ProgramFile> files, std::vector<ProgramSource> sources,
                 std::vector<NamedLayout> targets, const MayCast& may_cast,
                 std::optional<Storage> storage, std::vector<NodeLayouts> nodes) {
  Compiler compiler(std::move(files), std::move(sources), may_cast, std::move(storage));
  for (NodeLayouts& node : nodes) compiler.add(std::move(node));
  for (NamedLayout& target : targets) compiler.add(std::move(target));
  return compiler.finish();
}

CopyProgram select_targets(const CopyProgram& program, const std::vector<bool>& keep) {
  std::vector<ProgramTarget> kept;
  for (size_t i = 0; i < keep.size(); ++i) {
    if (keep[i]) kept.push_back(program.targets()[i]);
  }
  return program.with_targets(std::move(kept));
}

bool is_refusal(const Finding& finding, bool lenient) noexcept {
  switch (finding.severity) {
    case Severity::error:
      return true;
    case Severity::strict:
      return !lenient;
    case Severity::report:
      return false;
  }
  __builtin_unreachable();
}

}  // namespace weightloom
