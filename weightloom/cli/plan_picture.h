// What a page about a plan shows, as data: patterns of tensors with their way from keys to ranks,
// and files with what stands in them and who reads it. Layers that go the same way are one pattern,
// drawn for its first tensor, so that a picture is as large as a model is varied, not as deep.
// Thread safety: values.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "weightloom/cli/name_folding.h"
#include "weightloom/cli/plan_report.h"
#include "weightloom/cli/tensor_box.h"
#include "weightloom/plan/rank_programs.h"

namespace weightloom::cli {

/// A part of a key, and the ranks that hold it, ascending.
struct KeyStretch {
  Box box;
  std::vector<int64_t> ranks;
};

/// A tensor of the source, or one that is computed from several, drawn once.
struct KeyPicture {
  std::string name;
  DType dtype = DType::F32;
  Shape shape;
  int64_t size_bytes = 0;
  std::vector<int32_t> files;  // into PlanPicture::files, each once
  std::string computed;        // how and from what; "" if it stands in a file
  std::vector<KeyStretch> stretches;
};

/// A part of a rank's tensor, and where it comes from.
struct PieceStretch {
  Box box;
  int32_t key = -1;  // into TensorPattern::keys; -1: padding
};

/// What a rank holds of a tensor, or several ranks each.
struct RankPiece {
  std::vector<int64_t> ranks;  // ascending; those after the first hold replicas
  Shape shape;
  int64_t size_bytes = 0;
  int64_t pad_bytes = 0;
  std::vector<PieceStretch> stretches;
};

/// Targets that differ in numbers of their names only, and go the same way.
struct TensorPattern {
  FoldedName name;
  std::vector<FoldedName> sources;
  std::string first;  // the name of the one drawn
  DType dtype = DType::F32;
  Shape shape;            // of the whole tensor
  int64_t bytes = 0;      // of all its whole tensors
  std::string placement;  // as placement_text says it; "" without a mesh
  std::vector<KeyPicture> keys;
  std::vector<RankPiece> pieces;
  int64_t bytes_needed = 0;  // by all planned ranks, of all its tensors
  int64_t bytes_read = 0;
};

/// Neighbouring tensors of a file.
struct FileRun {
  int64_t begin_bytes = 0;  // in the file
  int64_t end_bytes = 0;
  int32_t pattern = -1;  // into PlanPicture::patterns; -1: several, or of no target
};

struct FilePicture {
  std::string name;
  int64_t size_bytes = 0;
  std::vector<FileRun> runs;        // by offset
  std::vector<int64_t> rank_bytes;  // that each planned rank needs of it
};

struct PlanPicture {
  std::vector<TensorPattern> patterns;  // in order of first use
  std::vector<FilePicture> files;
  std::vector<int64_t> ranks;  // those planned, ascending
};

/// Draws a plan; ranks are added one by one.
class PlanPainter {
 public:
  /// `whole`: the targets before they are cut; `spread` is null without a mesh. Both are borrowed.
  PlanPainter(const CopyProgram& whole, const Spread* spread);

  /// What `rank` makes: `wholes[i]` is the place of its target i in the whole program.
  void add(int64_t rank, const CopyProgram& program, std::span<const size_t> wholes,
           const Cost& cost);
  PlanPicture finish() &&;

 private:
  void draw(int64_t rank, const CopyProgram& program, size_t whole, const ProgramTarget& target);
  int64_t count_needed(const CopyProgram& program, const ProgramTarget& target);
  void draw_files();

  const CopyProgram& whole_;
  const Spread* spread_;
  PlanPicture picture_;
  std::vector<size_t> patterns_;      // of each whole target
  std::vector<size_t> first_wholes_;  // of each pattern
};

}  // namespace weightloom::cli
