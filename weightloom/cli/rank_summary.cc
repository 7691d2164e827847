#include "weightloom/cli/rank_summary.h"

#include <algorithm>

#include "weightloom/cli/name_folding.h"

namespace weightloom::cli {

double RankSummary::amplification() const noexcept {
  if (bytes_needed == 0) return 1;
  return static_cast<double>(bytes_read) / static_cast<double>(bytes_needed);
}

bool RankSummary::is_like(const RankSummary& other) const noexcept {
  return targets == other.targets && bytes_needed == other.bytes_needed &&
         bytes_read == other.bytes_read && bytes_written == other.bytes_written &&
         regions == other.regions && files == other.files;
}

std::string AlikeRanks::text() const {
  NumberSet numbers;
  for (const int64_t rank : ranks) numbers.add(rank);
  return numbers_text(numbers.ascending());
}

std::vector<AlikeRanks> fold_ranks(std::span<const RankSummary> summaries) {
  std::vector<AlikeRanks> folded;
  for (const RankSummary& summary : summaries) {
    const auto alike = std::ranges::find_if(
        folded, [&](const AlikeRanks& seen) { return seen.summary.is_like(summary); });
    AlikeRanks& to = alike == folded.end() ? folded.emplace_back(summary) : *alike;
    to.ranks.push_back(summary.rank);
  }
  return folded;
}

std::vector<NotableRank> notable_ranks(std::span<const RankSummary> summaries) {
  const auto least = std::ranges::min_element(summaries, {}, &RankSummary::bytes_written);
  const auto most = std::ranges::max_element(summaries, {}, &RankSummary::bytes_written);
  const auto slowest = std::ranges::max_element(summaries, {}, &RankSummary::bytes_read);
  return {{"least", *least}, {"most", *most}, {"slowest", *slowest}};
}

}  // namespace weightloom::cli
