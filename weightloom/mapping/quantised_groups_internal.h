// Which of compressed-tensors' groups says how a tensor is quantised.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "weightloom/mapping/name_patterns.h"
#include "weightloom/mapping/quantised_search_internal.h"

namespace weightloom {

/// How codes are stored.
enum class CodeForm : uint8_t { packed, pairs, fp8, int8 };

/// The groups of a config, their patterns compiled. Thread safety: none.
class GroupChoice {
 public:
  /// Borrows the config of the search. A pattern that does not compile is a finding of it.
  explicit GroupChoice(QuantisedSearch& search);

  /// How the tensor `name`, stored in that form, is quantised: by the groups that name its module,
  /// else those with a pattern that matches it, else those of a class; of them, those that make
  /// such codes. Nothing, with a finding, if none is left, or some that say different things.
  const WeightArgs* choose(QuantisedSearch& search, const std::string& name, CodeForm form);

 private:
  struct Target {
    const QuantGroup* group;
    std::string name;                     // of a module, or of a class
    std::vector<NamePatterns> pattern{};  // one, or none
    bool is_class = false;
  };

  void add_target(QuantisedSearch& search, const QuantGroup& group, const std::string& target);
  std::vector<const QuantGroup*> groups_of(std::string_view module);

  std::vector<Target> targets_;
};

}  // namespace weightloom
