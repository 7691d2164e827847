// One object of config.json, read key by key; what has another type than needed becomes a finding.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "weightloom/base/error.h"
#include "weightloom/mapping/model_config.h"

namespace weightloom {

/// Thread safety: none. Borrows the list of findings.
class QuantConfigReader {
 public:
  /// `where` begins every message.
  QuantConfigReader(ModelConfig object, std::string where, std::vector<Finding>& findings)
      : object_(std::move(object)), where_(std::move(where)), findings_(&findings) {}

  /// True if something other than null stands there.
  bool has(std::string_view key) const { return object_.has(key) && !object_.is_null(key); }
  /// True if a string stands there.
  bool is_text(std::string_view key) const { return object_.text_at(key).has_value(); }
  /// Nothing if absent or null; a finding if of another type.
  std::optional<std::string> text(std::string_view key);
  std::optional<int64_t> integer(std::string_view key);
  std::optional<std::vector<int64_t>> integers(std::string_view key);
  std::optional<std::vector<std::string>> texts(std::string_view key);
  /// `otherwise` if absent or null.
  bool flag(std::string_view key, bool otherwise);
  /// The object under a key; with a finding if it is something else.
  std::optional<QuantConfigReader> object(const std::string& key);
  /// All keys, sorted.
  std::vector<std::string> keys() const { return object_.keys(); }

  /// A finding unknown_scheme: "config.json: where.key is ….", or "config.json: where …." without
  /// a key.
  void refuse(std::string_view key, std::string_view why);

 private:
  template <typename Value>
  std::optional<Value> checked(std::string_view key, std::optional<Value> value,
                               std::string_view needed);

  ModelConfig object_;
  std::string where_;
  std::vector<Finding>* findings_;
};

}  // namespace weightloom
