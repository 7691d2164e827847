// Composition: a map into a tensor that is itself a map.
#pragma once

#include <span>

#include "weightloom/base/export.h"
#include "weightloom/layout/layout.h"

namespace weightloom WEIGHTLOOM_EXPORT {

/// `outer` with each of its sources replaced by what `inner` says of it: where outer takes element
/// e of source s, the result takes what inner[s] takes for e, or its pad.
/// Law: apply(compose(o, i), x) = apply(o, [apply(i[s], x) for s]).
/// Errors: usage if outer names a source beyond `inner` or an element beyond inner[s]; plan as the
/// operations.
Layout compose(const Layout& outer, std::span<const Layout> inner);

}  // namespace weightloom
