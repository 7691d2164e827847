// CopyProgram: the compiled form of a conversion, and the only thing that an executor reads.
//
// For each target tensor it holds regions of bytes (layout.h, with bytes for elements): which bytes
// of which source tensor go where. Load, save, convert, reshard and sync are such programs with
// other endpoints.
//
// A region whose source has another dtype than its target casts. Its offsets and strides count
// bytes like all others, each side's its own, but its points are elements: it has no axis of the
// bytes inside one, a point lies where the first byte of an element does, and volume() is a number
// of elements. A run of n from F32 to BF16 is the axis (n, 2, 4).
//
// A source need not stand in a file: a node computes it from others, as a codec says. What a codec
// takes is made as targets are, so nodes compose with layouts on both sides: regions take from
// what was decoded, and encoders from what regions made. Only the boxes that regions take are ever
// computed.
// Thread safety: an immutable value.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "weightloom/base/dtype.h"
#include "weightloom/base/export.h"
#include "weightloom/base/file.h"
#include "weightloom/codec/block_codec.h"
#include "weightloom/layout/layout.h"

namespace weightloom WEIGHTLOOM_EXPORT {

/// A file that sources stand in, as it was when its header was read.
struct ProgramFile {
  std::string name;   ///< for messages
  std::string path;   ///< to open
  FileStatus status;  ///< when its header was read
};

/// A tensor that regions read: of a checkpoint, or computed on the way.
struct ProgramSource {
  std::string name;          ///< as the checkpoint spells it
  DType dtype = DType::F32;  ///< of each element
  Shape shape;               ///< row-major
  int32_t file = 0;          ///< into files(); of what is computed -1
  int64_t offset_bytes = 0;  ///< from the start of the file
  int64_t size_bytes = 0;    ///< of its data
  int32_t node = -1;         ///< into nodes(): what computes it; -1: it stands in a file
  int32_t result = 0;        ///< which of the node's results it is

  /// True if a node makes it.
  bool is_computed() const noexcept { return node >= 0; }
};

/// A tensor that the program makes.
struct ProgramTarget {
  std::string name;          ///< in the wanted layout
  DType dtype = DType::F32;  ///< of each element
  Shape shape;               ///< row-major
  int64_t size_bytes = 0;    ///< of its data
  /// In bytes, sorted by target offset, coalesced; a contiguous run is an axis (bytes, 1, 1).
  /// Sources are places in sources(); a pad writes zero bytes. Where a region casts, the dtypes of
  /// both sides are castable.
  std::vector<Region> regions;
  /// No region begins before the one before it has ended: cuts along the target bisect.
  bool disjoint_hulls = true;
  /// Some region casts or takes what is computed: the target is cut between elements only.
  bool has_casts = false;
  /// Targets of one family are parts, or copies, of one tensor that were cut within its rows: equal
  /// fractions of them read the same stretch of the sources, and so they are made together. -1: of
  /// none.
  int32_t family = -1;
  /// Some region takes what a node computes.
  bool is_computed = false;
  /// Rows that are best made together: those of one block, of a result of an encoder.
  int64_t block_rows = 1;
  /// If is_computed: what it needs of sources in files, counted for each region.
  int64_t needed_bytes = 0;
};

/// A codec at work. To decode it takes operands, as operands_of says, and its result is the values,
/// in F32. To encode it takes the values, and its results are the operands.
struct ProgramNode {
  BlockCodec codec;      ///< what it computes
  bool encodes = false;  ///< from values to operands
  Shape shape;           ///< of the values: any leading dims, rows, columns
  /// What it takes, with the same leading dims: made as targets are.
  std::vector<ProgramTarget> inputs;
};

/// True if no region begins before the one before it has ended.
bool hulls_are_disjoint(std::span<const Region> regions) noexcept;

/// What one point of a region is: a byte, copied, or an element, cast `from` a dtype `to` another.
struct RegionType {
  DType from = DType::U8;  ///< of the source
  DType to = DType::U8;    ///< of the target

  /// True if values change.
  bool casts() const noexcept { return from != to; }
  /// Width of a point of the source.
  int64_t source_bytes() const noexcept { return casts() ? bits(from) / 8 : 1; }
  /// Width of a point of the target.
  int64_t target_bytes() const noexcept { return casts() ? bits(to) / 8 : 1; }
};

/// The compiled form of a conversion; see the top of this file.
class CopyProgram {
 public:
  CopyProgram() : CopyProgram({}, {}, {}) {}
  /// Used by compile(); see there for what holds. Where there are nodes it fills what of targets
  /// follows from them: is_computed, block_rows, needed_bytes.
  CopyProgram(std::vector<ProgramFile> files, std::vector<ProgramSource> sources,
              std::vector<ProgramTarget> targets, std::vector<ProgramNode> nodes = {});

  /// Those that sources stand in.
  std::span<const ProgramFile> files() const noexcept { return inputs_->files; }
  /// Tensors that regions read, by their place here.
  std::span<const ProgramSource> sources() const noexcept { return inputs_->sources; }
  /// What computes sources, each before those that take its results.
  std::span<const ProgramNode> nodes() const noexcept { return inputs_->nodes; }
  /// The source that a region, which is no pad, takes from.
  const ProgramSource& source_of(const Region& region) const noexcept {
    return inputs_->sources[static_cast<size_t>(region.source)];
  }
  /// What is made, in the order that compile() was given.
  std::span<const ProgramTarget> targets() const noexcept { return targets_; }
  /// A program of other targets over the same sources, which are shared, not copied.
  CopyProgram with_targets(std::vector<ProgramTarget> targets) const;
  /// What the points of one of a target's regions are.
  RegionType type_of(const ProgramTarget& target, const Region& region) const noexcept;
  /// Sum over the targets.
  int64_t target_bytes() const noexcept { return target_bytes_; }
  /// Sum over the targets.
  int64_t region_count() const noexcept { return region_count_; }

 private:
  struct Inputs {
    std::vector<ProgramFile> files;
    std::vector<ProgramSource> sources;
    std::vector<ProgramNode> nodes;
  };
  CopyProgram(std::shared_ptr<const Inputs> inputs, std::vector<ProgramTarget> targets);
  void note_nodes(ProgramTarget& target) const;
  void note_targets();

  std::shared_ptr<const Inputs> inputs_;
  std::vector<ProgramTarget> targets_;
  int64_t target_bytes_ = 0;
  int64_t region_count_ = 0;
};

/// The part of a target's regions that writes bytes [begin, end) of it.
/// Law: exactly the pairs (target, source) with begin ≤ target < end.
/// Precondition: if it has casts, begin and end lie between elements.
std::vector<Region> clip_target(const ProgramTarget& target, int64_t begin, int64_t end);

}  // namespace weightloom
