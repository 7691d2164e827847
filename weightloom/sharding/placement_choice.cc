#include <fmt/format.h>

#include "weightloom/sharding/placement_choice_internal.h"

namespace weightloom::internal {

OrderFit order_fit(const OrderTrial& carved, const OrderTrial& straight, bool alike) {
  if (carved.fits && straight.fits && !alike) return OrderFit::either;
  if (carved.fits) return OrderFit::carving;
  return straight.fits ? OrderFit::left_to_right : OrderFit::neither;
}

std::string given_by_both(const OrderTrial& carved, const OrderTrial& straight) {
  if (carved.given == straight.given) return carved.given;
  return fmt::format("{} where FSDP cut last, {} as torch reads the placements", carved.given,
                     straight.given);
}

}  // namespace weightloom::internal
