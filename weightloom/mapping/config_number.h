// A number of an operation: written down, or said by config.json.
//
//   "4096"   "num_attention_heads"   "vision_config.num_heads"
//   "num_attention_heads*head_dim|hidden_size"    products and quotients; the first alternative
//                                                 counts whose keys are all there
//   "num_attention_heads|16"    a number behind keys is the default of the model's class: it counts
//                               when config.json is there and leaves the keys out
// A key without a dot is looked up in the root, then in "text_config".
// Thread safety: immutable values.
#pragma once

#include <concepts>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "weightloom/base/export.h"
#include "weightloom/mapping/model_config.h"

namespace weightloom WEIGHTLOOM_EXPORT {

/// A number that is known, or that config.json is to say; see the top of this file.
class ConfigNumber {
 private:
  struct Factor {
    bool divides = false;
    int64_t number = 0;  // without a key
    std::string key;
  };
  using Product = std::vector<Factor>;

 public:
  /// A number as it is.
  template <std::integral Integer>
  ConfigNumber(Integer number)  // NOLINT(google-explicit-constructor): a number is one
      : text_(std::to_string(number)),
        alternatives_{{Factor{false, static_cast<int64_t>(number), ""}}} {}
  /// Errors: mapping if the text is none of the above.
  ConfigNumber(std::string_view text);  // NOLINT(google-explicit-constructor)
  /// As from a string_view.
  ConfigNumber(const char* text) : ConfigNumber(std::string_view(text)) {}  // NOLINT

  /// With keys looked up under `subconfig` ("vision_config"; empty: as written).
  /// Nothing if a key is absent or no integer, a quotient is not whole, or a product overflows.
  std::optional<int64_t> value(const ModelConfig& config, std::string_view subconfig = "") const;
  /// As written.
  const std::string& text() const noexcept { return text_; }
  /// As in the JSON form: a number, or a string.
  std::string to_json() const;
  /// True if no config is needed.
  bool is_literal() const noexcept;

  friend bool operator==(const ConfigNumber& a, const ConfigNumber& b) {
    return a.text_ == b.text_;
  }

 private:
  static Factor parse_factor(std::string_view text);
  static Product parse_product(std::string_view text);
  static std::optional<int64_t> value_of(const Product& product, const ModelConfig& config,
                                         std::string_view subconfig);

  std::string text_;
  std::vector<Product> alternatives_;
};

}  // namespace weightloom
