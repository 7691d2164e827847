#include "weightloom/cli/quantity.h"

#include <array>

#include <fmt/format.h>

namespace weightloom::cli {

std::string parameters_text(int64_t parameters) {
  constexpr std::array kUnits = {"K", "M", "B", "T"};
  if (parameters < 1000) return fmt::to_string(parameters);
  double value = static_cast<double>(parameters) / 1000;
  size_t unit = 0;
  // 999.5 would be printed as 1000, so it moves on to the next unit.
  while (value >= 999.5 && unit + 1 < kUnits.size()) {
    value /= 1000;
    ++unit;
  }
  const int digits = value < 9.995 ? 2 : value < 99.95 ? 1 : 0;
  return fmt::format("{:.{}f} {}", value, digits, kUnits[unit]);
}

std::string count_text(int64_t count, std::string_view noun) {
  return fmt::format("{} {}{}", count, noun, count == 1 ? "" : "s");
}

}  // namespace weightloom::cli
