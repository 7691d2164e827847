// The registry that counts where the caller gives none.
#pragma once

#include <memory>

#include "weightloom/mapping/registry.h"

namespace weightloom::python {

using RegistryPtr = std::shared_ptr<const Registry>;

/// What the library ships; made when first asked for.
inline const Registry& shipped_registry() {
  static const Registry registry = Registry::built_in();
  return registry;
}

}  // namespace weightloom::python
