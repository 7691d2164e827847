#include "weightloom/cli/html_text.h"

#include <fmt/format.h>

#include "weightloom/cli/terminal.h"

namespace weightloom::cli {

std::string html(std::string_view text) {
  std::string result;
  for (char c : printable(text)) {
    switch (c) {
      case '&':
        result += "&amp;";
        break;
      case '<':
        result += "&lt;";
        break;
      case '>':
        result += "&gt;";
        break;
      case '"':
        result += "&quot;";
        break;
      case '\'':
        result += "&#39;";
        break;
      default:
        result += c;
    }
  }
  return result;
}

std::string percent(double fraction) {
  std::string text = fmt::format("{:.3f}", fraction * 100);
  text.erase(text.find_last_not_of('0') + 1);
  if (text.back() == '.') text.pop_back();
  return text + "%";
}

std::string html_rectangle(const Patch& patch, std::string_view classes, std::string_view title) {
  return fmt::format(
      "<rect class=\"{}\" x=\"{}\" y=\"{}\" width=\"{}\" height=\"{}\"><title>{}</title></rect>",
      html(classes), percent(patch.left), percent(patch.top), percent(patch.right - patch.left),
      percent(patch.bottom - patch.top), html(title));
}

std::string html_drawing(std::string_view classes, double width, std::string_view rectangles) {
  return fmt::format("<svg class=\"{}\" style=\"width:{}\">{}</svg>\n", html(classes),
                     percent(width), rectangles);
}

}  // namespace weightloom::cli
