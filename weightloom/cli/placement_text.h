// How a tensor is spread over a mesh, as people read it.
#pragma once

#include <string>

#include "weightloom/sharding/sharding.h"

namespace weightloom::cli {

/// In carving order: "tp:1 fsdp:0" where axes cut dims in chunks, with the rule where it is
/// another: "ep:0 round_robin", "tp:1 of 2 groups"; "pad 1 to ×128"; "pp at 0,1";
/// "whole" where every rank holds all of it.
std::string placement_text(const Sharding& sharding);

}  // namespace weightloom::cli
