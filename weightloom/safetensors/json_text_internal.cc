#include "weightloom/safetensors/json_text_internal.h"

#include <fmt/format.h>

namespace weightloom {

simdjson::dom::object parse_json_object(simdjson::dom::parser& parser, const std::string& text,
                                        std::string_view file) {
  simdjson::dom::element root;
  if (auto error = parser.parse(text).get(root)) {
    throw Error(ErrorCode::format, fmt::format("{}: {} bytes that are not valid JSON: {}", file,
                                               text.size(), simdjson::error_message(error)));
  }
  simdjson::dom::object object;
  if (root.get(object)) {
    throw Error(ErrorCode::format,
                fmt::format("{}: the JSON is {}, but an object is needed", file, kind_of(root)));
  }
  return object;
}

std::string_view kind_of(simdjson::dom::element value) {
  switch (value.type()) {
    case simdjson::dom::element_type::ARRAY:
      return "a list";
    case simdjson::dom::element_type::OBJECT:
      return "an object";
    case simdjson::dom::element_type::INT64:
    case simdjson::dom::element_type::UINT64:
      return "an integer";
    case simdjson::dom::element_type::DOUBLE:
      return "a fraction";
    case simdjson::dom::element_type::STRING:
      return "a string";
    case simdjson::dom::element_type::BOOL:
      return "true or false";
    case simdjson::dom::element_type::NULL_VALUE:
      return "null";
  }
  __builtin_unreachable();
}

}  // namespace weightloom
