#include "weightloom/cli/name_folding.h"

#include <algorithm>
#include <charconv>
#include <optional>
#include <utility>

#include <fmt/format.h>

namespace weightloom::cli {
namespace {

constexpr char kPlace = '\0';
constexpr size_t kMostRuns = 6;
constexpr int64_t kMostSmall = 4096;  // layers and experts are fewer

std::optional<int64_t> number_in(std::string_view component) {
  if (component.empty() || (component.size() > 1 && component[0] == '0')) return std::nullopt;
  if (component[0] < '0' || component[0] > '9') return std::nullopt;
  int64_t number = 0;
  const char* begin = &component.front();
  const char* end = begin + component.size();
  const auto [stop, error] = std::from_chars(begin, end, number);
  if (error != std::errc() || stop != end) return std::nullopt;
  return number;
}

/// An arithmetic progression of numbers: all of them, if they are one.
std::optional<std::string> as_progression(const std::vector<int64_t>& numbers) {
  if (numbers.size() == 1) return fmt::to_string(numbers[0]);
  const int64_t step = numbers[1] - numbers[0];
  for (size_t i = 2; i < numbers.size(); ++i) {
    if (numbers[i] - numbers[i - 1] != step) return std::nullopt;
  }
  if (step == 1) return fmt::format("{{{}..{}}}", numbers.front(), numbers.back());
  if (numbers.size() == 2) return fmt::format("{{{},{}}}", numbers.front(), numbers.back());
  return fmt::format("{{{}..{}..{}}}", numbers.front(), numbers.back(), step);
}

/// Runs of consecutive numbers; beyond a few, the rest is dots.
std::string as_runs(const std::vector<int64_t>& numbers) {
  std::string result;
  size_t runs = 0;
  for (size_t begin = 0; begin < numbers.size();) {
    size_t end = begin + 1;
    while (end < numbers.size() && numbers[end] == numbers[end - 1] + 1) ++end;
    if (++runs > kMostRuns) return fmt::format("{{{},…,{}}}", result, numbers.back());
    if (!result.empty()) result += ',';
    result += fmt::to_string(numbers[begin]);
    if (end - begin > 1) result += fmt::format("..{}", numbers[end - 1]);
    begin = end;
  }
  return fmt::format("{{{}}}", result);
}

}  // namespace

std::string numbers_text(const std::vector<int64_t>& ascending) {
  if (ascending.empty()) return "";
  return as_progression(ascending).value_or(as_runs(ascending));
}

NumberedName number_name(std::string_view name, NumberedName reused) {
  NumberedName result = std::move(reused);
  result.skeleton.clear();
  result.numbers.clear();
  size_t copied = 0;
  for (size_t begin = 0; begin < name.size();) {
    const size_t end = std::min(name.find('.', begin), name.size());
    if (const auto number = number_in(name.substr(begin, end - begin))) {
      result.skeleton.append(name, copied, begin - copied);
      result.skeleton += kPlace;
      result.numbers.push_back(*number);
      copied = end;
    }
    begin = end + 1;
  }
  result.skeleton.append(name, copied);
  return result;
}

void NumberSet::add(int64_t number) {
  if (number >= kMostSmall) {
    large_.insert(number);
    return;
  }
  const auto place = static_cast<size_t>(number);
  if (place >= small_.size()) small_.resize(place + 1);
  small_[place] = true;
}

std::vector<int64_t> NumberSet::ascending() const {
  std::vector<int64_t> numbers;
  for (size_t i = 0; i < small_.size(); ++i) {
    if (small_[i]) numbers.push_back(static_cast<int64_t>(i));
  }
  numbers.insert(numbers.end(), large_.begin(), large_.end());
  return numbers;
}

FoldedName::FoldedName(std::string skeleton)
    : skeleton_(std::move(skeleton)),
      places_(static_cast<size_t>(std::ranges::count(skeleton_, kPlace))) {}

void FoldedName::add(std::span<const int64_t> numbers) {
  for (size_t i = 0; i < numbers.size(); ++i) places_[i].add(numbers[i]);
  ++count_;
}

std::string FoldedName::text() const {
  std::string result;
  size_t place = 0;
  for (char c : skeleton_) {
    if (c == kPlace) {
      result += numbers_text(places_[place++].ascending());
    } else {
      result += c;
    }
  }
  return result;
}

}  // namespace weightloom::cli
