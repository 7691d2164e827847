// The one table of what companions are called: scales, zero points and the like beside tensors of
// codes, in every spelling that checkpoints use.
//
// Thread safety: pure functions.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace weightloom {

/// What a companion is for.
enum class CompanionKind : uint8_t {
  scale,       ///< a factor of codes
  part,        ///< another thing that values need
  activation,  ///< of the inputs of a module; values do not need it
};

/// Where its name stands.
enum class CompanionPlace : uint8_t {
  behind,  ///< behind the whole name of its owner
  beside,  ///< beside a ".weight", in the same module
};

/// How a companion is called.
struct CompanionName {
  std::string_view text;
  CompanionPlace place = CompanionPlace::behind;
  CompanionKind kind = CompanionKind::part;
  /// No tensor is called so but a companion: without its owner it is a mistake.
  bool is_plain = true;
};

/// All of them; of those behind a name, longer ones first.
std::span<const CompanionName> companion_names();

/// A companion by its spelling.
struct CompanionMatch {
  CompanionName name;
  std::string owner;  ///< the tensor that it would be the companion of
};

/// What a tensor of that name may be the companion of; most names: nothing.
std::vector<CompanionMatch> companion_matches(std::string_view name);

/// What a scale of the codes `owner` may be called, each once, the usual ones first.
std::vector<std::string> scale_names_of(std::string_view owner);

/// True for the scales of a key-value cache and of attention ("k_scale"), by the last component.
bool is_attention_scale(std::string_view name);

/// The name without ".weight", the parameter's module; other names as they are.
std::string_view module_of(std::string_view name);

}  // namespace weightloom
