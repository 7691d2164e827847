#include "weightloom/base/glob.h"

#include <fnmatch.h>

namespace weightloom {

bool glob_matches(const std::string& glob, const std::string& name) {
  return fnmatch(glob.c_str(), name.c_str(), 0) == 0;
}

}  // namespace weightloom
