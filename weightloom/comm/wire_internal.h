// Numbers and texts as bytes of a message, and back. In the header, so that transports in libraries
// of their own have it too. Private to the library.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "weightloom/base/error.h"

namespace weightloom {

/// Builds a message.
class WireWriter {
 public:
  void put(int64_t number) { append(std::as_bytes(std::span(&number, 1))); }
  void put(std::string_view text) {
    put(std::ssize(text));
    append(std::as_bytes(std::span(text)));
  }
  std::vector<std::byte> bytes() && { return std::move(bytes_); }

 private:
  void append(std::span<const std::byte> bytes) {
    bytes_.insert(bytes_.end(), bytes.begin(), bytes.end());
  }

  std::vector<std::byte> bytes_;
};

/// Reads what a WireWriter built, in the same order. Borrows the bytes.
/// Errors: format if there are not so many.
class WireReader {
 public:
  explicit WireReader(std::span<const std::byte> bytes) : rest_(bytes) {}

  int64_t number() {
    int64_t result = 0;
    std::memcpy(&result, take(sizeof(result)).data(), sizeof(result));
    return result;
  }
  std::string text() {
    const std::span<const std::byte> bytes = take(number());
    return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
  }

 private:
  std::span<const std::byte> take(int64_t size) {
    if (size < 0 || size > std::ssize(rest_)) {
      throw Error(ErrorCode::format, "a message between ranks ends before it should");
    }
    const auto bytes = rest_.first(static_cast<size_t>(size));
    rest_ = rest_.subspan(bytes.size());
    return bytes;
  }

  std::span<const std::byte> rest_;
};

}  // namespace weightloom
