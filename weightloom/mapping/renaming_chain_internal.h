// All renamings of a mapping, one after the other.
//
// In a reversed mapping each renaming undoes one of the mapping forwards, and so acts on a name
// only if that renaming would make the name of the result: a name that did not come through it
// stays.
//
// Thread safety: as Pattern, one per thread.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "weightloom/mapping/mapping.h"
#include "weightloom/mapping/transform_matcher_internal.h"

namespace weightloom {

class RenamingChain {
 public:
  explicit RenamingChain(const Mapping& mapping);

  /// Finds out which groups of renames act on these names (GroupWeightRename). Until then none
  /// does.
  void decide_guards(size_t count, const std::function<std::string_view(size_t)>& name_of);
  /// Takes over what another chain of the same mapping found out.
  void take_guards(const RenamingChain& other);

  struct Renamed {
    std::string name;
    std::optional<size_t> last;  ///< the last transform that acted
  };
  /// All renamings, chained; calls `fired(transform)` for each that acts.
  Renamed rename(std::string name, const std::function<void(size_t)>& fired = {});

 private:
  struct Step {
    size_t transform = 0;
    TransformMatcher matcher;
    std::optional<TransformMatcher> forward;  // of a reversed mapping
    bool guarded = false;
    bool active = true;
  };

  static std::optional<std::string> apply(Step& step, std::string_view name);
  bool guard_matches(size_t step, std::string_view name);

  std::vector<Step> steps_;
};

}  // namespace weightloom
