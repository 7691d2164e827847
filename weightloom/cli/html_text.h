// Text and shapes of an HTML page.
// Thread safety: pure functions.
#pragma once

#include <string>
#include <string_view>

#include "weightloom/cli/tensor_box.h"

namespace weightloom::cli {

/// `text` as it stands between tags or in a quoted attribute; control characters as \xNN.
std::string html(std::string_view text);
/// "12.5%", of a fraction of 1.
std::string percent(double fraction);
/// A rectangle of a drawing, with a text that a pointer over it shows. `classes` and `title` are
/// escaped here.
std::string html_rectangle(const Patch& patch, std::string_view classes, std::string_view title);
/// A drawing that is `width` of its place wide.
std::string html_drawing(std::string_view classes, double width, std::string_view rectangles);

}  // namespace weightloom::cli
