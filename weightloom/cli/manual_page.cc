#include "weightloom/cli/manual_page.h"

#include <algorithm>
#include <string_view>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "weightloom/version.h"

namespace weightloom::cli {
namespace {

/// Text that roff prints as it is: hyphens that can be copied, no line that begins as a request.
std::string roff(std::string_view text) {
  std::string result;
  for (size_t i = 0; i < text.size(); ++i) {
    const bool begins_line = i == 0 || text[i - 1] == '\n';
    if (begins_line && (text[i] == '.' || text[i] == '\'')) result += "\\&";
    if (text[i] == '-') {
      result += "\\-";
    } else if (text[i] == '\\') {
      result += "\\e";
    } else {
      result += text[i];
    }
  }
  return result;
}

std::string bold(std::string_view text) { return "\\fB" + roff(text) + "\\fR"; }
std::string italic(std::string_view text) { return "\\fI" + roff(text) + "\\fR"; }

std::string without_newline_at_end(std::string text) {
  text.erase(text.find_last_not_of('\n') + 1);
  return text;
}

/// "auto|hub|FILE": words bold, places italic.
std::string value_text(const std::string& text) {
  const bool is_place =
      std::none_of(text.begin(), text.end(), [](char c) { return c >= 'a' && c <= 'z'; });
  return is_place ? italic(text) : bold(text);
}

std::string option_text(const OptionOutline& option, bool is_argument) {
  std::vector<std::string> names;
  for (const std::string& name : option.names) {
    names.push_back(is_argument ? italic(name) : bold(name));
  }
  std::string text = fmt::format(".TP\n{}", fmt::join(names, ", "));
  if (!is_argument && !option.value.text.empty()) text += " " + value_text(option.value.text);
  return text + "\n" + roff(option.meaning) + "\n";
}

std::string synopsis_of(const std::string& program, const VerbOutline& verb) {
  std::string text = bold(program + " " + verb.name);
  for (const OptionOutline& argument : verb.arguments) {
    const std::string name = italic(argument.names.front());
    text += argument.required ? " " + name : " [" + name + "]";
  }
  return text + " [" + italic("FLAGS") + "]\n";
}

/// A footer's parts: "Examples:" and indented lines become a heading and lines as they stand.
std::string footer_text(const std::string& footer, const char* heading_macro) {
  std::string text;
  for (size_t begin = 0; begin < footer.size();) {
    const size_t end = std::min(footer.find("\n\n", begin), footer.size());
    const std::string part = footer.substr(begin, end - begin);
    const size_t first = part.find(":\n");
    if (first != std::string::npos && part.find('\n') == first + 1) {
      std::string heading = part.substr(0, first);
      text += fmt::format("{} {}\n.nf\n{}\n.fi\n", heading_macro, roff(heading),
                          roff(part.substr(first + 2)));
    } else {
      text += ".PP\n" + roff(part) + "\n";
    }
    begin = end + 2;
  }
  return text;
}

std::string verb_text(const std::string& program, const VerbOutline& verb) {
  std::string text = fmt::format(".SS {}\n", roff(program + " " + verb.name));
  text += roff(verb.summary) + ".\n";
  if (!verb.description.empty()) {
    text += ".PP\n" + roff(without_newline_at_end(verb.description)) + "\n";
  }
  for (const OptionOutline& argument : verb.arguments) text += option_text(argument, true);
  for (const OptionOutline& flag : verb.flags) text += option_text(flag, false);
  const size_t lines = verb.footer.find('\n');
  if (lines != std::string::npos) {
    text += fmt::format(".PP\n{}\n.PP\n.nf\n{}\n.fi\n", roff(verb.footer.substr(0, lines)),
                        roff(verb.footer.substr(lines + 1)));
  }
  return text;
}

}  // namespace

std::string manual_page(const CommandOutline& outline) {
  std::string text = fmt::format(
      ".\\\" Written by: weightloom man\n.TH WEIGHTLOOM 1 {} \"weightloom {}\" \"User Commands\"\n",
      WEIGHTLOOM_RELEASE_DATE, version());
  text += fmt::format(".SH NAME\n{} \\- move model weights between safetensors layouts\n",
                      outline.name);
  text += ".SH SYNOPSIS\n.nf\n";
  for (const VerbOutline& verb : outline.verbs) text += synopsis_of(outline.name, verb);
  text += ".fi\n.SH DESCRIPTION\n" + roff(without_newline_at_end(outline.description)) + "\n";
  for (const OptionOutline& flag : outline.flags) text += option_text(flag, false);
  text += ".SH COMMANDS\n";
  for (const VerbOutline& verb : outline.verbs) text += verb_text(outline.name, verb);
  text += footer_text(outline.footer, ".SH");
  text += ".SH ENVIRONMENT\n.TP\n.B NO_COLOR\nTurns colour off when it is set and not empty.\n";
  return text;
}

}  // namespace weightloom::cli
