// One transform and one name at a time: for who builds a mapping by hand and wants to see what a
// rule does.
// Thread safety: one per thread.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "weightloom/base/export.h"
#include "weightloom/mapping/transform.h"

namespace weightloom WEIGHTLOOM_EXPORT {

/// What a transform makes of a name.
struct RenamedKey {
  /// The new name; of a converter, by its first target pattern, with a `*` where that enumerates.
  /// The name itself where nothing matched.
  std::string key;
  std::optional<int> source;  ///< which source pattern matched

  friend bool operator==(const RenamedKey&, const RenamedKey&) = default;
};

/// A transform's patterns, compiled.
class KeyRenamer {
 public:
  /// Errors: mapping, naming the pattern.
  explicit KeyRenamer(const WeightTransform& transform);
  KeyRenamer(KeyRenamer&&) noexcept;             ///< Leaves the other one unusable.
  KeyRenamer& operator=(KeyRenamer&&) noexcept;  ///< Leaves the other one unusable.
  ~KeyRenamer();

  /// The guard of a GroupWeightRename, which needs all names, is taken to be met.
  /// Errors: mapping if a pattern is too costly to search in the name.
  RenamedKey rename(std::string_view key);

 private:
  struct Matcher;
  std::unique_ptr<Matcher> matcher_;
};

}  // namespace weightloom
