// A conversion operation that is written in Python, and mappings that name such operations.
#pragma once

#include <cstdint>

#include <nanobind/nanobind.h>

#include "weightloom/mapping/operation.h"

namespace weightloom::python {

/// A Python object that the library's values keep alive. It is owned by a table in Python, where
/// the garbage collector sees it: an operation's class leads to its module's globals, and from
/// there back to the plans that hold the operation. Made with the interpreter's lock; may be
/// destroyed without it.
class HeldObject {
 public:
  explicit HeldObject(const nanobind::object& object);
  ~HeldObject();
  HeldObject(const HeldObject&) = delete;
  HeldObject& operator=(const HeldObject&) = delete;

  /// With the lock.
  nanobind::handle get() const noexcept { return object_; }

 private:
  nanobind::handle object_;
  int64_t key_ = 0;
};

/// `object` has `apply(slots, context)`, `reverse()` and `to_json()`; see LayoutOperation in
/// Python. Called with the interpreter's lock; may be run and destroyed without it.
OperationPtr operation_of(nanobind::object object);

}  // namespace weightloom::python
