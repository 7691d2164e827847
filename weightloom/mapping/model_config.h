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

/// config.json, parsed.
class ModelConfig {
 public:
  /// No config at all: every look-up gives nothing.
  ModelConfig();
  /// Errors: format, naming `file`, if it is no JSON object or has duplicate keys.
  static ModelConfig parse(std::string_view json, std::string_view file);

  /// True if there was one.
  bool present() const noexcept { return present_; }
  const std::string& model_type() const noexcept { return model_type_; }  ///< "" if absent
  /// In file order; empty if absent.
  const std::vector<std::string>& architectures() const noexcept { return architectures_; }
  /// An integer at a path of keys ("vision_config.num_heads") below `subconfig` (empty: the root).
  /// Without a dot and a subconfig, the root is searched and then "text_config". A subconfig that
  /// is not there, in a config that has no "text_config" either, is the root itself: config.json is
  /// then that of the sub-model alone.
  std::optional<int64_t> at(std::string_view path, std::string_view subconfig = "") const;
  /// True if something stands at a path of keys.
  bool has(std::string_view path) const;
  /// True if null stands at a path of keys.
  bool is_null(std::string_view path) const;
  /// A string at a path of keys; nothing if there is none.
  std::optional<std::string> text_at(std::string_view path) const;
  /// true or false at a path of keys; nothing if there is neither.
  std::optional<bool> flag_at(std::string_view path) const;
  /// A list of integers at a path of keys; nothing if there is none.
  std::optional<std::vector<int64_t>> integers_at(std::string_view path) const;
  /// A number, whole or not, at a path of keys; nothing if there is none.
  std::optional<double> number_at(std::string_view path) const;
  /// A list of strings at a path of keys; nothing if there is none.
  std::optional<std::vector<std::string>> texts_at(std::string_view path) const;
  /// The object at a path of keys, as a config of its own; nothing if there is none.
  std::optional<ModelConfig> object_at(std::string_view path) const;
  /// The keys of this object, sorted.
  std::vector<std::string> keys() const;
  /// What stands under one key, which may hold dots, if it is an object.
  std::optional<ModelConfig> member(const std::string& key) const;
  /// Its JSON, on one line, keys sorted; "{}" if there was none.
  std::string to_json() const;

  /// True if both are the same JSON.
  friend bool operator==(const ModelConfig& a, const ModelConfig& b);

 private:
  struct Json;
  static ModelConfig of(Json json);

  std::shared_ptr<const Json> json_;
  bool present_ = false;
  std::string model_type_;
  std::vector<std::string> architectures_;
};

}  // namespace weightloom
