#include "weightloom/base/byte_size.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>
#include <cmath>
#include <limits>
#include <optional>

#include <fmt/format.h>

#include "weightloom/base/checked.h"
#include "weightloom/base/error.h"

namespace weightloom {
namespace {

struct Unit {
  std::string_view name;  // lower case
  int64_t bytes;
};

constexpr std::array<Unit, 10> kUnits = {{
    {"", 1},
    {"b", 1},
    {"kb", 1'000},
    {"mb", 1'000'000},
    {"gb", 1'000'000'000},
    {"tb", 1'000'000'000'000},
    {"kib", int64_t{1} << 10},
    {"mib", int64_t{1} << 20},
    {"gib", int64_t{1} << 30},
    {"tib", int64_t{1} << 40},
}};

std::optional<int64_t> unit_bytes(std::string_view name) {
  std::string lower(name);
  for (char& c : lower) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  auto unit = std::find_if(kUnits.begin(), kUnits.end(), [&](auto& u) { return u.name == lower; });
  if (unit == kUnits.end()) return std::nullopt;
  return unit->bytes;
}

/// The digits that `text` starts with.
std::string_view leading_digits(std::string_view text) {
  return text.substr(0, std::min(text.find_first_not_of("0123456789"), text.size()));
}

/// floor(0.DIGITS × unit), in integers so that "1.1GB" is 1,100,000,000 exactly.
int64_t fraction_of(std::string_view digits, int64_t unit) {
  int64_t fraction = 0;
  for (size_t i = digits.size(); i-- > 0;) fraction = ((digits[i] - '0') * unit + fraction) / 10;
  return fraction;
}

std::optional<int64_t> parse(std::string_view text) {
  auto whole_digits = leading_digits(text);
  if (whole_digits.empty()) return std::nullopt;
  int64_t whole = 0;
  const char* begin = whole_digits.data();
  auto [_, error] = std::from_chars(begin, begin + whole_digits.size(), whole);
  if (error != std::errc()) return std::nullopt;
  text.remove_prefix(whole_digits.size());
  std::string_view fraction_digits;
  if (text.starts_with('.')) {
    fraction_digits = leading_digits(text.substr(1));
    if (fraction_digits.empty()) return std::nullopt;
    text.remove_prefix(1 + fraction_digits.size());
  }
  text.remove_prefix(std::min(text.find_first_not_of(' '), text.size()));
  auto unit = unit_bytes(text);
  if (!unit) return std::nullopt;
  auto bytes = checked_mul(whole, *unit);
  return bytes ? checked_add(*bytes, fraction_of(fraction_digits, *unit)) : std::nullopt;
}

}  // namespace

int64_t parse_byte_size(std::string_view text) {
  auto bytes = parse(text);
  if (bytes && *bytes > 0) return *bytes;
  throw Error(ErrorCode::usage,
              fmt::format("'{}' is no size in bytes: needed is a number from 1 to {}", text,
                          std::numeric_limits<int64_t>::max()),
              "write it as 5GB (decimal), 1GiB (binary) or 123 (bytes)");
}

std::string format_byte_size(int64_t size_bytes) {
  constexpr std::array kNames = {"KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
  if (std::abs(size_bytes) < 1024) return fmt::format("{} B", size_bytes);
  double value = static_cast<double>(size_bytes) / 1024;
  size_t unit = 0;
  // 1023.5 would be printed as 1024, so it moves on to the next unit.
  while (std::abs(value) >= 1023.5 && unit + 1 < kNames.size()) {
    value /= 1024;
    ++unit;
  }
  int digits = std::abs(value) < 99.995 ? 2 : std::abs(value) < 999.95 ? 1 : 0;
  return fmt::format("{:.{}f} {}", value, digits, kNames[unit]);
}

}  // namespace weightloom
