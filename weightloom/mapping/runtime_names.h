// What is known of the names that a model's tensors have at run time, and the two rules that ask:
// the base model's prefix is put on or taken off where that gives a name of the model, and a name
// that the model has stays where renaming it gives one that the model does not have.
//
// Names are known exactly (a list, such as those that a program says it wants), or by templates, in
// which "*" stands for a component of digits. By templates "x.bias" is a name if "x.weight" is: a
// config may ask for it.
//
// Source: facts on Transformers, `rename_source_key`.
// Thread safety: immutable values.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "weightloom/base/export.h"

namespace weightloom WEIGHTLOOM_EXPORT {

/// How the base model's prefix is to change on a name.
struct PrefixEdit {
  size_t strip_bytes = 0;  ///< taken off the front
  std::string_view add;    ///< put there, with its dot; borrows from the RuntimeNames

  /// True if the name stays.
  bool empty() const noexcept { return strip_bytes == 0 && add.empty(); }
  /// The name, edited.
  std::string applied_to(std::string_view name) const;
};

/// The names of a model at run time, as far as they are known.
class RuntimeNames {
 public:
  /// Nothing is known: has() is true of no name and no rule acts.
  RuntimeNames() = default;
  /// Exactly these.
  static RuntimeNames exactly(std::vector<std::string> names, std::string base_model_prefix);
  /// Those that match one of the templates.
  static RuntimeNames like(std::vector<std::string> templates, std::string base_model_prefix);

  /// True if anything is.
  bool known() const noexcept { return known_ != nullptr; }
  /// True if the names are a list, not templates.
  bool exact() const noexcept;
  /// True if the model has a tensor of this name.
  bool has(std::string_view name) const;
  /// "model" and its like; "" if the class has none.
  const std::string& base_model_prefix() const noexcept { return prefix_; }
  /// How the base model's prefix changes on `name`: off, if the rest is a name of the model; else
  /// on, if that gives one; else not at all.
  PrefixEdit prefix_edit(std::string_view name) const;

 private:
  struct Known;
  std::string prefix_;
  std::string prefix_with_dot_;
  std::shared_ptr<const Known> known_;
};

/// `name` with each component of digits alone replaced by "*".
std::string template_of(std::string_view name);

}  // namespace weightloom
