// Where the parts of a JSON text stand, so that it can be edited in place.
//
// Thread safety: pure functions. Precondition of all: the text is well-formed, but for the NaN and
// Infinity that Python writes. Spans lend from the text's numbering, not from its bytes.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace weightloom {

/// [begin, end) of a text.
struct JsonSpan {
  size_t begin = 0;
  size_t end = 0;
};

/// A member of an object, or an item of a list (without a key).
struct JsonMember {
  std::string key;  ///< as it reads, escapes undone
  JsonSpan whole;   ///< from the key to the end of the value
  JsonSpan value;
};

/// The outermost value of the text.
JsonSpan json_root(std::string_view text);
/// The members of the object, or the items of the list, that stands there, in order; nothing for
/// other values.
std::vector<JsonMember> json_members(std::string_view text, const JsonSpan& value);
/// The member of that key, if the value is an object that has one.
std::optional<JsonMember> json_member(std::string_view text, const JsonSpan& value,
                                      std::string_view key);

/// The text without the member or item at `at`, and without the comma and the space that went with
/// it.
std::string json_without(std::string_view text, const std::vector<JsonMember>& members, size_t at);

}  // namespace weightloom
