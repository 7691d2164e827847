#include <fmt/format.h>

#include "weightloom/c_api/c_structs_internal.h"
#include "weightloom/execute/budget.h"

namespace weightloom::c_api {

size_t checked_struct_size(const void* given, const char* name) {
  size_t size = 0;
  std::memcpy(&size, given, sizeof size);
  constexpr size_t kLeast = 2 * sizeof(size_t);  // itself and one member
  constexpr size_t kMost = 4096;
  if (size >= kLeast && size <= kMost) return size;
  throw Error(ErrorCode::usage, fmt::format("{}: struct_size is {}", name, size),
              fmt::format("start with the macro for it: {} = WL_…_DEFAULT", name));
}

void refuse_unknown_members(const void* given, size_t begin, size_t end, const char* name) {
  const auto* bytes = static_cast<const unsigned char*>(given);
  for (size_t i = begin; i < end; ++i) {
    if (bytes[i] == 0) continue;
    throw Error(ErrorCode::unsupported,
                fmt::format("{}: it sets a member that this version of the library has not", name),
                "use the library of the header's version, or a later one");
  }
}

wl_tensor describe(const std::string& name, DType dtype, const Shape& shape, int64_t size_bytes) {
  // Ended by a NUL, as dtype.h says.
  const char* dtype_name = to_string(dtype).data();  // NOLINT(bugprone-suspicious-stringview*)
  return {sizeof(wl_tensor), name.c_str(), dtype_name, shape.data(), std::ssize(shape), size_bytes};
}

size_t checked_index(int64_t index, size_t count, const char* noun) {
  const auto at = static_cast<size_t>(index);
  if (index >= 0 && at < count) return at;
  throw Error(ErrorCode::usage, fmt::format("there is no {} {}: there are {}", noun, index, count));
}

int threads_or_default(int32_t threads) {
  constexpr int32_t kMost = 1024;
  if (threads == 0) return default_threads();
  if (threads > 0 && threads <= kMost) return threads;
  throw Error(ErrorCode::usage,
              fmt::format("threads is {}: no number from 0 to {}", threads, kMost));
}

}  // namespace weightloom::c_api
