#include "weightloom/layout/cut.h"

#include <algorithm>
#include <numeric>

#include "weightloom/base/checked.h"
#include "weightloom/layout/operation_support_internal.h"

namespace weightloom {
namespace {

Interval chunk_of(int64_t size, int64_t parts, int64_t part) {
  const int64_t rows = ceil_div(size, parts);
  const int64_t begin = rows == 0 || part > size / rows ? size : rows * part;
  return {begin, begin + std::min(rows, size - begin)};
}

Interval balanced_of(int64_t size, int64_t parts, int64_t part) {
  const int64_t rows = size / parts;
  const int64_t longer = size % parts;
  const int64_t begin = part * rows + std::min(part, longer);
  return {begin, begin + rows + (part < longer ? 1 : 0)};
}

Interval even_of(int64_t size, int64_t parts, int64_t part) {
  if (size % parts != 0) misuse("an even cut: {} rows do not divide by {} parts", size, parts);
  const int64_t rows = size / parts;
  return {part * rows, (part + 1) * rows};
}

int64_t sum_of(std::span<const int64_t> numbers) {
  int64_t sum = 0;
  for (const int64_t number : numbers) {
    const auto more = checked_add(sum, number);
    if (number < 0 || !more) misuse("the sizes {} are negative or too large", to_string(numbers));
    sum = *more;
  }
  return sum;
}

/// Parts get their units' share of the blocks, as far as whole blocks go; what is left of the last
/// block goes with it.
Interval ragged_of(const Cut& cut, int64_t size, int64_t parts, int64_t part) {
  if (std::ssize(cut.units) != parts) {
    misuse("a ragged cut: {} units for {} parts", cut.units.size(), parts);
  }
  if (cut.granularity < 1) misuse("a ragged cut: a granularity of {}", cut.granularity);
  const int64_t all = sum_of(cut.units);
  const int64_t blocks = ceil_div(size, cut.granularity);
  if (all == 0 ? blocks > 0 : blocks % all != 0) {
    misuse("a ragged cut: {} blocks of {} rows do not divide by {} units", blocks, cut.granularity,
           all);
  }
  const int64_t per_unit = all == 0 ? 0 : blocks / all * cut.granularity;
  const std::span<const int64_t> units(cut.units);
  const int64_t before = sum_of(units.first(static_cast<size_t>(part)));
  const int64_t until = before + units[static_cast<size_t>(part)];
  return {std::min(size, before * per_unit), std::min(size, until * per_unit)};
}

std::vector<Interval> table_of(const Cut& cut, int64_t size, int64_t parts, int64_t part) {
  if (std::ssize(cut.table) != parts) {
    misuse("a cut by table: {} entries for {} parts", cut.table.size(), parts);
  }
  std::vector<Interval> rows;
  for (const Interval& interval : cut.table[static_cast<size_t>(part)]) {
    if (interval.begin < 0 || interval.begin > interval.end || interval.end > size) {
      misuse("a cut by table: rows [{}, {}) of part {} are not in [0, {})", interval.begin,
             interval.end, part, size);
    }
    if (interval.size() > 0) rows.push_back(interval);
  }
  return rows;
}

/// Where each group of the dim lies.
std::vector<Interval> groups_of(const Cut& cut, int64_t size) {
  std::vector<Interval> groups;
  if (cut.groups.empty()) {
    if (cut.stripes < 1) misuse("a cut: {} stripes", cut.stripes);
    for (int64_t i = 0; i < cut.stripes; ++i) groups.push_back(chunk_of(size, cut.stripes, i));
    return groups;
  }
  if (sum_of(cut.groups) != size || cut.stripes != 1) {
    misuse("a cut: groups {} with {} stripes do not make up {} rows", to_string(cut.groups),
           cut.stripes, size);
  }
  int64_t begin = 0;
  for (const int64_t rows : cut.groups) {
    groups.push_back({begin, begin + rows});
    begin += rows;
  }
  return groups;
}

Interval interval_of(const Cut& cut, int64_t size, int64_t parts, int64_t part) {
  switch (cut.rule) {
    case CutRule::chunk:
      return chunk_of(size, parts, part);
    case CutRule::balanced:
      return balanced_of(size, parts, part);
    case CutRule::even:
      return even_of(size, parts, part);
    case CutRule::ragged:
      return ragged_of(cut, size, parts, part);
    case CutRule::round_robin:
    case CutRule::table:
      break;
  }
  __builtin_unreachable();
}

}  // namespace

std::string_view to_string(CutRule rule) noexcept {
  switch (rule) {
    case CutRule::chunk:
      return "chunk";
    case CutRule::balanced:
      return "balanced";
    case CutRule::even:
      return "even";
    case CutRule::round_robin:
      return "round_robin";
    case CutRule::ragged:
      return "ragged";
    case CutRule::table:
      return "table";
  }
  __builtin_unreachable();
}

std::vector<Interval> part_of(const Cut& cut, int64_t size, int64_t parts, int64_t part) {
  if (size < 0 || parts < 1 || part < 0 || part >= parts) {
    misuse("a cut: part {} of {} of {} rows", part, parts, size);
  }
  if (cut.rule == CutRule::table) return table_of(cut, size, parts, part);
  std::vector<Interval> rows;
  for (const Interval& group : groups_of(cut, size)) {
    if (cut.rule == CutRule::round_robin) {
      for (int64_t row = group.begin + part; row < group.end; row += parts) {
        rows.push_back({row, row + 1});
      }
      continue;
    }
    const Interval piece = interval_of(cut, group.size(), parts, part);
    if (piece.size() > 0) rows.push_back({group.begin + piece.begin, group.begin + piece.end});
  }
  return rows;
}

}  // namespace weightloom
