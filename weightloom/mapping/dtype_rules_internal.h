// The dtype rules of a mapping, ready to run over names: which tensors a cast leaves in another
// dtype (a router's bias stays F32 when the model becomes BF16).
//
// Thread safety: as Pattern, one per thread.
#pragma once

#include <string_view>
#include <vector>

#include "weightloom/mapping/mapping.h"
#include "weightloom/mapping/pattern_internal.h"

namespace weightloom {

class DtypeRules {
 public:
  /// Errors: mapping, naming the pattern, if one does not compile.
  explicit DtypeRules(const Mapping& mapping);

  /// The dtype that a tensor of that name gets where `wanted` is asked for: the first rule that
  /// matches decides, else `wanted`.
  DType dtype_of(std::string_view name, DType wanted);

 private:
  struct Rule {
    DtypeRule form;
    Pattern pattern;
  };
  std::vector<Rule> rules_;
};

}  // namespace weightloom
