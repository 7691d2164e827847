// Structures of the interface, whatever the header that the caller was built with.
//
// They begin with their own size and grow at their end only: a shorter one leaves the later members
// at their defaults, a longer one is taken as long as what this library does not know is zero.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <type_traits>

#include "weightloom/base/error.h"
#include "weightloom/base/shape.h"
#include "weightloom/c_api.h"

namespace weightloom::c_api {

/// The size that a caller's structure says it has.
/// Errors: usage if it is too small to be one.
size_t checked_struct_size(const void* given, const char* name);
/// Errors: usage if any of the bytes from `begin` on is not zero.
void refuse_unknown_members(const void* given, size_t begin, size_t end, const char* name);

/// The caller's options, or `defaults` for NULL. `Struct` begins with its size.
template <class Struct>
Struct read_struct(const Struct* given, Struct defaults, const char* name) {
  static_assert(std::is_trivially_copyable_v<Struct>);
  if (given == nullptr) return defaults;
  const size_t size = checked_struct_size(given, name);
  refuse_unknown_members(given, sizeof(Struct), size, name);
  std::memcpy(&defaults, given, std::min(size, sizeof(Struct)));
  return defaults;
}

/// Fills the caller's structure, as far as it reaches; its size stays.
template <class Struct>
void fill_struct(Struct* to, Struct from, const char* name) {
  static_assert(std::is_trivially_copyable_v<Struct>);
  const size_t size = checked_struct_size(to, name);
  from.struct_size = size;
  std::memcpy(to, &from, std::min(size, sizeof(Struct)));
}

/// A wl_tensor that borrows from what it is given.
wl_tensor describe(const std::string& name, DType dtype, const Shape& shape, int64_t size_bytes);
/// Errors: usage if `index` is none of `count`.
size_t checked_index(int64_t index, size_t count, const char* noun);
/// 0 stands for the machine's default.
/// Errors: usage if it is no number from 0 to 1024.
int threads_or_default(int32_t threads);

}  // namespace weightloom::c_api
