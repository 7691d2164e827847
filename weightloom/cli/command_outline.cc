#include "weightloom/cli/command_outline.h"

#include <algorithm>
#include <string_view>

#include <CLI/CLI.hpp>

#include "weightloom/base/dtype.h"
#include "weightloom/mapping/registry.h"

namespace weightloom::cli {
namespace {

/// "Layout wanted (default:\nsame)" on one line.
std::string on_one_line(std::string text) {
  std::replace(text.begin(), text.end(), '\n', ' ');
  return text;
}

/// Small letters, or a dtype: F32.
bool is_word(std::string_view part) {
  if (parse_dtype(part)) return true;
  return std::all_of(part.begin(), part.end(), [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-';
  });
}

bool names_a_file(std::string_view part) {
  return part.starts_with("FILE") || part == "DIR" || part == "INDEX";
}

void add_part(ValueOutline& value, const std::string& part) {
  if (names_a_file(part)) {
    value.files = true;
  } else if (part == "NAME") {
    const auto names = Registry::built_in().names();
    value.words.insert(value.words.end(), names.begin(), names.end());
  } else if (is_word(part)) {
    value.words.push_back(part);
  }
}

/// Reads "auto|none|NAME|FILE.json": small letters stand for themselves.
ValueOutline parse_value(const std::string& text) {
  ValueOutline value = {text, {}, false};
  for (size_t begin = 0; begin < text.size();) {
    const size_t end = std::min(text.find('|', begin), text.size());
    add_part(value, text.substr(begin, end - begin));
    begin = end + 1;
  }
  return value;
}

OptionOutline outline_of_flag(const CLI::Option& option) {
  OptionOutline outline;
  for (const std::string& name : option.get_snames()) outline.names.push_back("-" + name);
  for (const std::string& name : option.get_lnames()) outline.names.push_back("--" + name);
  outline.meaning = on_one_line(option.get_description());
  if (option.get_items_expected_max() > 0) outline.value = parse_value(option.get_option_text());
  return outline;
}

/// An argument is a path, unless it is called NAME.
OptionOutline outline_of_argument(const CLI::Option& option) {
  OptionOutline outline;
  const std::string name = option.get_name(true);
  outline.names = {name};
  outline.meaning = on_one_line(option.get_description());
  outline.value = parse_value(name == "NAME" ? name : "FILE");
  outline.required = option.get_required();
  return outline;
}

/// Up to the first empty line, and what follows it.
void split_description(const std::string& text, VerbOutline& verb) {
  const size_t end = std::min(text.find('\n'), text.size());
  verb.summary = text.substr(0, end);
  const size_t rest = text.find_first_not_of('\n', end);
  if (rest != std::string::npos) verb.description = text.substr(rest);
}

VerbOutline outline_of_verb(const CLI::App& app) {
  VerbOutline verb;
  verb.name = app.get_name();
  split_description(app.get_description(), verb);
  verb.footer = app.get_footer();
  for (const CLI::Option* option : app.get_options()) {
    if (option->get_positional()) {
      verb.arguments.push_back(outline_of_argument(*option));
    } else {
      verb.flags.push_back(outline_of_flag(*option));
    }
  }
  return verb;
}

}  // namespace

CommandOutline outline_of(const CLI::App& program) {
  CommandOutline outline;
  outline.name = program.get_name();
  outline.description = program.get_description();
  outline.footer = program.get_footer();
  for (const CLI::Option* option : program.get_options()) {
    outline.flags.push_back(outline_of_flag(*option));
  }
  for (const CLI::App* verb : program.get_subcommands([](const CLI::App*) { return true; })) {
    if (!verb->get_group().empty()) outline.verbs.push_back(outline_of_verb(*verb));
  }
  return outline;
}

}  // namespace weightloom::cli
