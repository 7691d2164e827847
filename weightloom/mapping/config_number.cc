#include "weightloom/mapping/config_number.h"

#include <algorithm>
#include <charconv>

#include <fmt/format.h>

#include "weightloom/base/checked.h"
#include "weightloom/base/error.h"
#include "weightloom/mapping/operation_internal.h"

namespace weightloom {
namespace {

constexpr std::string_view kKeyCharacters =
    "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.";

std::optional<int64_t> parse_whole(std::string_view text) {
  int64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return number;
}

}  // namespace

ConfigNumber::ConfigNumber(std::string_view text) : text_(text) {
  while (true) {
    const size_t bar = text.find('|');
    alternatives_.push_back(parse_product(text.substr(0, bar)));
    if (bar == text.npos) return;
    text.remove_prefix(bar + 1);
  }
}

ConfigNumber::Factor ConfigNumber::parse_factor(std::string_view text) {
  if (const auto number = parse_whole(text)) return {false, *number, ""};
  const bool is_key = !text.empty() && text.find_first_not_of(kKeyCharacters) == text.npos;
  if (is_key) return {false, 0, std::string(text)};
  throw Error(ErrorCode::mapping,
              fmt::format("'{}' is neither a number nor a key of config.json", text));
}

ConfigNumber::Product ConfigNumber::parse_product(std::string_view text) {
  Product product;
  bool divides = false;
  while (true) {
    const size_t sign = text.find_first_of("*/");
    product.push_back(parse_factor(text.substr(0, sign)));
    product.back().divides = divides;
    if (sign == text.npos) return product;
    divides = text[sign] == '/';
    text.remove_prefix(sign + 1);
  }
}

std::optional<int64_t> ConfigNumber::value_of(const Product& product, const ModelConfig& config,
                                              std::string_view subconfig) {
  int64_t value = 1;
  for (const Factor& factor : product) {
    const auto number = factor.key.empty() ? factor.number : config.at(factor.key, subconfig);
    if (!number) return std::nullopt;
    if (factor.divides) {
      if (*number < 1 || value % *number != 0) return std::nullopt;
      value /= *number;
      continue;
    }
    const auto times = checked_mul(value, *number);
    if (!times) return std::nullopt;
    value = *times;
  }
  return value;
}

std::optional<int64_t> ConfigNumber::value(const ModelConfig& config,
                                           std::string_view subconfig) const {
  if (!config.present() && !is_literal()) return std::nullopt;
  for (const Product& product : alternatives_) {
    if (const auto value = value_of(product, config, subconfig)) return value;
  }
  return std::nullopt;
}

std::string ConfigNumber::to_json() const {
  return parse_whole(text_) ? text_ : internal::to_json_string(text_);
}

bool ConfigNumber::is_literal() const noexcept {
  return std::ranges::all_of(alternatives_.front(),
                             [](const Factor& factor) { return factor.key.empty(); });
}

}  // namespace weightloom
