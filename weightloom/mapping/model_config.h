// config.json: what it declares about the model. Nothing is guessed from it.
// Thread safety: an immutable value.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "weightloom/base/export.h"

namespace weightloom WEIGHTLOOM_EXPORT {

class ModelConfig {
 public:
  /// No config at all: every look-up gives nothing.
  ModelConfig();
  /// Errors: format, naming `file`, if it is no JSON object or has duplicate keys.
  static ModelConfig parse(std::string_view json, std::string_view file);

  bool present() const noexcept { return present_; }
  const std::string& model_type() const noexcept { return model_type_; }  // "" if absent
  const std::vector<std::string>& architectures() const noexcept { return architectures_; }
  /// An integer under `subconfig`.`key` (`subconfig` empty: the root); nothing if there is none.
  std::optional<int64_t> integer(std::string_view key, std::string_view subconfig = "") const;
  /// As integer(key), in the root and else in "text_config".
  std::optional<int64_t> text_integer(std::string_view key) const;

 private:
  struct Json;
  std::shared_ptr<const Json> json_;
  bool present_ = false;
  std::string model_type_;
  std::vector<std::string> architectures_;
};

}  // namespace weightloom
