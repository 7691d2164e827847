// How the targets of a family are cut together.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "weightloom/plan/program.h"
#include "weightloom/plan/schedule.h"

namespace weightloom {

/// A target of a family, and where it lies.
struct FamilyMember {
  int32_t target = 0;  ///< into the program's targets; it has bytes
  Placement at;
};

/// The members cut at the same fractions of their rows, into pieces of whole rows: piece i of all
/// members makes tile i. A row is one step of the outermost dims: of the first one, or of as many
/// as it takes for a row of each member to fit into a tile. Thread safety: an immutable value.
class FamilyCut {
 public:
  /// Into the fewest tiles of at most `most_bytes`; nothing if one element of each is more than
  /// that, or a row ends inside a byte. Precondition: there is a member.
  static std::optional<FamilyCut> make(const CopyProgram& program,
                                       std::span<const FamilyMember> members, int64_t most_bytes);

  int64_t count() const noexcept { return count_; }
  Tile tile(int64_t i) const;

 private:
  struct Rows {
    FamilyMember member;
    int64_t rows = 0;
    int64_t row_bytes = 0;
    int64_t step = 1;  // rows that stay together: those of one block of an encoder

    int64_t steps() const noexcept { return (rows + step - 1) / step; }
  };

  /// Rows of the first `dims` dims.
  bool set_rows(const CopyProgram& program, std::span<const FamilyMember> members, int dims);
  /// The largest that a tile can be when there are `count` of them.
  int64_t largest_tile(int64_t count) const;
  int64_t most_rows() const;
  void set_count(int64_t most_bytes);
  void add(const Rows& rows, int64_t i, Tile& tile) const;

  std::vector<Rows> rows_;
  int64_t count_ = 0;
  bool keeps_pages_ = false;  // parts lie in their pages as in those of their spaces
};

}  // namespace weightloom
