#include "weightloom/mapping/spelling.h"

#include <algorithm>
#include <numeric>
#include <utility>

namespace weightloom {

int edit_distance(std::string_view a, std::string_view b) {
  std::vector<int> row(b.size() + 1);
  std::iota(row.begin(), row.end(), 0);
  for (size_t i = 0; i < a.size(); ++i) {
    int diagonal = std::exchange(row[0], static_cast<int>(i) + 1);
    for (size_t j = 0; j < b.size(); ++j) {
      const int replaced = diagonal + (a[i] == b[j] ? 0 : 1);
      diagonal = row[j + 1];
      row[j + 1] = std::min({replaced, diagonal + 1, row[j] + 1});
    }
  }
  return row.back();
}

std::vector<std::string> closest(std::string_view word, std::span<const std::string> candidates,
                                 int most) {
  constexpr size_t kLongestWord = 100;  // what is longer is no misspelling
  const int allowed = 1 + static_cast<int>(word.size()) / 4;
  std::vector<std::pair<int, std::string>> near;
  if (word.size() > kLongestWord) return {};
  for (const auto& candidate : candidates) {
    const int distance = edit_distance(word, candidate);
    if (distance <= allowed) near.emplace_back(distance, candidate);
  }
  std::sort(near.begin(), near.end());
  std::erase_if(near, [best = near.empty() ? 0 : near.front().first](const auto& each) {
    return each.first > best;
  });
  near.resize(std::min(near.size(), static_cast<size_t>(std::max(most, 0))));
  std::vector<std::string> words;
  for (auto& [distance, candidate] : near) words.push_back(std::move(candidate));
  return words;
}

}  // namespace weightloom
