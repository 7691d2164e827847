// Strict JSON text on simdjson, shared by the readers of headers and indexes. Private to this room.
#pragma once

#include <string>
#include <string_view>

#include <simdjson.h>

#include "weightloom/base/error.h"

namespace weightloom {

/// Parses `text` as one JSON value that must be an object; the result lives as long as `parser`.
/// Errors: format, naming `file`.
simdjson::dom::object parse_json_object(simdjson::dom::parser& parser, const std::string& text,
                                        std::string_view file);
/// "a list", "a number", … for messages.
std::string_view kind_of(simdjson::dom::element value);

}  // namespace weightloom
