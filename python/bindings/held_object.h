// A Python object that values of the library own.
#pragma once

#include <cstdint>

#include <nanobind/nanobind.h>

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

}  // namespace weightloom::python
