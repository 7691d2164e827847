#include <algorithm>

#include "weightloom/base/checked.h"
#include "weightloom/plan/family_cut_internal.h"

namespace weightloom {
namespace {

constexpr int64_t kPageBytes = 4096;
// Parts are moved to their places in their pages where they are this much larger than a page.
constexpr int64_t kPagesPerPart = 16;

/// rows·i / count, without the product.
int64_t row_of_cut(int64_t rows, int64_t i, int64_t count) {
  return rows / count * i + rows % count * i / count;
}

const ProgramTarget& target_of(const CopyProgram& program, const FamilyMember& member) {
  return program.targets()[static_cast<size_t>(member.target)];
}

int smallest_rank(const CopyProgram& program, std::span<const FamilyMember> members) {
  size_t rank = target_of(program, members.front()).shape.size();
  for (const FamilyMember& member : members) {
    rank = std::min(rank, target_of(program, member).shape.size());
  }
  return static_cast<int>(rank);
}

}  // namespace

std::optional<FamilyCut> FamilyCut::make(const CopyProgram& program,
                                         std::span<const FamilyMember> members,
                                         int64_t most_bytes) {
  FamilyCut cut;
  cut.keeps_pages_ = most_bytes >= std::ssize(members) * kPagesPerPart * kPageBytes;
  const int rank = smallest_rank(program, members);
  for (int dims = 1; dims <= rank; ++dims) {
    if (!cut.set_rows(program, members, dims)) return std::nullopt;
    if (cut.largest_tile(cut.most_rows()) > most_bytes) continue;
    cut.set_count(most_bytes);
    return cut;
  }
  return std::nullopt;
}

bool FamilyCut::set_rows(const CopyProgram& program, std::span<const FamilyMember> members,
                         int dims) {
  rows_.clear();
  for (const FamilyMember& member : members) {
    const ProgramTarget& target = target_of(program, member);
    int64_t rows = 1;
    for (int d = 0; d < dims; ++d) rows *= target.shape[static_cast<size_t>(d)];
    if (target.size_bytes % rows != 0) return false;  // a row ends inside a byte
    const bool whole_rows = dims + 1 == std::ssize(target.shape);
    rows_.push_back({member, rows, target.size_bytes / rows, whole_rows ? target.block_rows : 1});
  }
  return true;
}

int64_t FamilyCut::largest_tile(int64_t count) const {
  int64_t bytes = 0;
  for (const Rows& rows : rows_) {
    if (keeps_pages_ && bytes > 0) bytes += kPageBytes - 1;
    bytes += std::min(ceil_div(rows.steps(), count) * rows.step, rows.rows) * rows.row_bytes;
  }
  return bytes;
}

int64_t FamilyCut::most_rows() const {
  int64_t most = 1;
  for (const Rows& rows : rows_) most = std::max(most, rows.steps());
  return most;
}

/// The smallest count whose tiles fit; that of one row each does.
void FamilyCut::set_count(int64_t most_bytes) {
  int64_t too_few = 0;
  count_ = most_rows();
  while (count_ - too_few > 1) {
    const int64_t middle = too_few + (count_ - too_few) / 2;
    (largest_tile(middle) <= most_bytes ? count_ : too_few) = middle;
  }
}

Tile FamilyCut::tile(int64_t i) const {
  Tile tile;
  tile.long_runs = false;
  for (const Rows& rows : rows_) add(rows, i, tile);
  return tile;
}

void FamilyCut::add(const Rows& rows, int64_t i, Tile& tile) const {
  const auto byte_of_cut = [&](int64_t cut) {
    const int64_t row = row_of_cut(rows.steps(), cut, count_) * rows.step;
    return std::min(row, rows.rows) * rows.row_bytes;
  };
  const int64_t begin = byte_of_cut(i);
  const int64_t end = byte_of_cut(i + 1);
  if (begin == end) return;
  const int64_t from = rows.member.at.offset_bytes + begin;
  int64_t at = tile.size_bytes;
  if (keeps_pages_ && !tile.parts.empty()) {
    const int64_t phase = (from - tile.parts.front().begin_bytes - at) % kPageBytes;
    at += phase < 0 ? phase + kPageBytes : phase;
  }
  tile.parts.push_back({rows.member.at.space, from, end - begin, at});
  tile.pieces.push_back({rows.member.target, begin, end, at});
  tile.size_bytes = at + end - begin;
}

}  // namespace weightloom
