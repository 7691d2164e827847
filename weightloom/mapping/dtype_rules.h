// The dtype rules of a mapping, ready to run over names: which tensors a cast leaves in another
// dtype (a router's bias stays F32 when the model becomes BF16).
//
// Thread safety: none; each thread needs its own.
#pragma once

#include <memory>
#include <string_view>

#include "weightloom/base/export.h"
#include "weightloom/mapping/mapping.h"

namespace weightloom WEIGHTLOOM_EXPORT {

/// The rules of one mapping, compiled.
class DtypeRules {
 public:
  /// Errors: mapping, naming the pattern, if one does not compile.
  explicit DtypeRules(const Mapping& mapping);

  /// The dtype that a tensor of that name gets where `wanted` is asked for: the first rule that
  /// matches decides, else `wanted`.
  /// Errors: mapping if a pattern is too costly to search in the name.
  DType dtype_of(std::string_view name, DType wanted);

 private:
  struct Compiled;
  std::shared_ptr<Compiled> compiled_;
};

}  // namespace weightloom
