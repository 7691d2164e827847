// What ranks do, in numbers, and those of them that do the same.
// Thread safety: values, pure functions.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace weightloom::cli {

/// The numbers of one rank. Units: bytes where a name says so, else counts.
struct RankSummary {
  int64_t rank = 0;
  int64_t targets = 0;
  int64_t bytes_needed = 0;
  int64_t bytes_read = 0;
  int64_t bytes_written = 0;
  int64_t regions = 0;
  int64_t files = 0;

  /// bytes_read / bytes_needed, 1 when nothing is needed.
  double amplification() const noexcept;
  /// True if only the ranks differ.
  bool is_like(const RankSummary& other) const noexcept;
};

/// Ranks that do the same.
struct AlikeRanks {
  RankSummary summary;         // of the first
  std::vector<int64_t> ranks;  // ascending

  /// `0`, `{0..6}`, `{0..4,6}`.
  std::string text() const;
};
/// In order of their first ranks.
std::vector<AlikeRanks> fold_ranks(std::span<const RankSummary> summaries);

/// A rank that stands out.
struct NotableRank {
  std::string what;  // "least", "most", "slowest"
  RankSummary summary;
};
/// The ranks that hold least and most bytes, and the one that reads most, the first of each.
/// Precondition: `summaries` is not empty.
std::vector<NotableRank> notable_ranks(std::span<const RankSummary> summaries);

}  // namespace weightloom::cli
