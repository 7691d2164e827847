#include <fmt/format.h>

#include "weightloom/base/quote.h"
#include "weightloom/mapping/quant_config_reader_internal.h"

namespace weightloom {

template <typename Value>
std::optional<Value> QuantConfigReader::checked(std::string_view key, std::optional<Value> value,
                                                std::string_view needed) {
  if (!value && has(key)) refuse(key, fmt::format("is not {}", needed));
  return value;
}

std::optional<std::string> QuantConfigReader::text(std::string_view key) {
  return checked(key, object_.text_at(key), "a string");
}

std::optional<int64_t> QuantConfigReader::integer(std::string_view key) {
  return checked(key, object_.at(key), "a whole number");
}

std::optional<std::vector<int64_t>> QuantConfigReader::integers(std::string_view key) {
  return checked(key, object_.integers_at(key), "a list of whole numbers");
}

std::optional<std::vector<std::string>> QuantConfigReader::texts(std::string_view key) {
  return checked(key, object_.texts_at(key), "a list of strings");
}

bool QuantConfigReader::flag(std::string_view key, bool otherwise) {
  return checked(key, object_.flag_at(key), "true or false").value_or(otherwise);
}

std::optional<QuantConfigReader> QuantConfigReader::object(const std::string& key) {
  const auto member = checked(key, object_.member(key), "an object");
  if (!member) return std::nullopt;
  return QuantConfigReader(*member, fmt::format("{}.{}", where_, key), *findings_);
}

void QuantConfigReader::refuse(std::string_view key, std::string_view why) {
  const std::string place = key.empty() ? where_ : fmt::format("{}.{}", where_, key);
  findings_->push_back({Severity::error, "unknown_scheme", "", "config.json",
                        fmt::format("config.json: {} {}", quote(place), why)});
}

}  // namespace weightloom
