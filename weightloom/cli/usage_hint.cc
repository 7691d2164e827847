#include "weightloom/cli/usage_hint.h"

#include <algorithm>
#include <cstddef>
#include <numeric>

#include <fmt/format.h>

namespace weightloom::cli {
namespace {

/// Levenshtein's distance, one row at a time.
size_t typos_between(std::string_view a, std::string_view b) {
  std::vector<size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), size_t{0});
  for (size_t i = 1; i <= a.size(); ++i) {
    size_t diagonal = row[0];
    row[0] = i;
    for (size_t j = 1; j <= b.size(); ++j) {
      const size_t replaced = diagonal + (a[i - 1] == b[j - 1] ? 0 : 1);
      diagonal = row[j];
      row[j] = std::min({replaced, row[j] + 1, row[j - 1] + 1});
    }
  }
  return row[b.size()];
}

std::vector<std::string> flags_of(const CLI::App& app) {
  std::vector<std::string> flags;
  for (const CLI::Option* option : app.get_options()) {
    for (const std::string& name : option->get_lnames()) flags.push_back("--" + name);
  }
  return flags;
}

std::vector<std::string> verbs_of(const CLI::App& app) {
  std::vector<std::string> verbs;
  for (const CLI::App* verb : app.get_subcommands([](const CLI::App*) { return true; })) {
    verbs.push_back(verb->get_name());
  }
  return verbs;
}

Error usage(std::string message, const std::string& suggestion) {
  if (!suggestion.empty()) message += fmt::format("; did you mean '{}'?", suggestion);
  return Error(ErrorCode::usage, message);
}

Error unknown_argument(const CLI::App& app, const CLI::App* verb, const std::string& argument) {
  if (argument.starts_with("-")) {
    const std::string flag = argument.substr(0, argument.find('='));
    return usage(fmt::format("unknown flag '{}'", flag),
                 nearest_word(flag, flags_of(verb != nullptr ? *verb : app)));
  }
  if (verb != nullptr) return usage(fmt::format("one argument too many: '{}'", argument), "");
  return usage(fmt::format("unknown verb '{}'", argument), nearest_word(argument, verbs_of(app)));
}

/// The first positional that was not given.
std::string missing_argument(const CLI::App& verb) {
  for (const CLI::Option* option : verb.get_options()) {
    if (option->get_positional() && option->get_required() && option->count() == 0) {
      return option->get_name(true);
    }
  }
  return "";
}

}  // namespace

std::string nearest_word(std::string_view wrong, const std::vector<std::string>& words) {
  std::string nearest;
  size_t fewest = std::string::npos;
  for (const std::string& word : words) {
    const size_t typos = typos_between(wrong, word);
    if (typos * 3 > word.size() || typos >= fewest) continue;
    fewest = typos;
    nearest = word;
  }
  return nearest;
}

Error usage_error(const CLI::App& app, const CLI::App* verb, const CLI::ParseError& error) {
  // An argument that nobody takes is the cause of whatever else is found missing.
  const std::vector<std::string> left = app.remaining(true);
  if (!left.empty()) {
    const auto flag = std::find_if(left.begin(), left.end(),
                                   [](const std::string& text) { return text.starts_with("-"); });
    return unknown_argument(app, verb, flag != left.end() ? *flag : left.front());
  }
  if (verb == nullptr) {
    return usage(fmt::format("needed is a verb: {}", fmt::join(verbs_of(app), ", ")), "");
  }
  const std::string missing = missing_argument(*verb);
  if (!missing.empty()) return usage(fmt::format("{} is not given", missing), "");
  return usage(error.what(), "");
}

}  // namespace weightloom::cli
