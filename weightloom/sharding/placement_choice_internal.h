// Which of the two orders that placements leave open (dtensor_placements.h) cut a tensor: the one
// that gives what is held. Private to the library. Thread safety: pure functions.
#pragma once

#include <string>

namespace weightloom::internal {

/// One order of cuts, held against what is held.
struct OrderTrial {
  bool fits = false;
  std::string given{};  ///< where it does not fit: what it gives, in words
};

/// What trials of both orders say.
enum class OrderFit {
  carving,        ///< as FSDP cuts; also where both orders cut alike
  left_to_right,  ///< as torch reads placements
  neither,        ///< given_by_both() says what they give
  either,         ///< both fit, and cut in different ways
};

/// Of two trials; `alike`: both orders cut in the same way.
OrderFit order_fit(const OrderTrial& carved, const OrderTrial& straight, bool alike);

/// What the orders give, one or two of them, for a refusal of what neither gives.
std::string given_by_both(const OrderTrial& carved, const OrderTrial& straight);

}  // namespace weightloom::internal
