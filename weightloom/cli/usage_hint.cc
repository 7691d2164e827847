#include "weightloom/cli/usage_hint.h"

#include <algorithm>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "weightloom/base/quote.h"
#include "weightloom/mapping/spelling.h"

namespace weightloom::cli {
namespace {

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
    if (!verb->get_group().empty()) verbs.push_back(verb->get_name());
  }
  return verbs;
}

/// `what` the user wrote is not known; which of `words` is closest to it.
Error unknown(const std::string& what, const std::string& wrong,
              const std::vector<std::string>& words) {
  std::string message = fmt::format("unknown {} {}", what, quote(wrong));
  const auto meant = closest(wrong, words, 1);
  if (!meant.empty()) message += fmt::format("; did you mean '{}'?", meant.front());
  return Error(ErrorCode::usage, message);
}

Error unknown_argument(const CLI::App& app, const CLI::App* verb, const std::string& argument) {
  if (argument.starts_with("-")) {
    return unknown("flag", argument.substr(0, argument.find('=')),
                   flags_of(verb != nullptr ? *verb : app));
  }
  if (verb == nullptr) return unknown("verb", argument, verbs_of(app));
  return Error(ErrorCode::usage, fmt::format("one argument too many: {}", quote(argument)));
}

/// What CLI11 says of a flag with too few or too many values: `--flag: 1 required TEXT missing`, or
/// `--flag: At Most 1 required but received 2`.
std::string plain_words(const CLI::ParseError& error) {
  std::string said = error.what();
  if (dynamic_cast<const CLI::ArgumentMismatch*>(&error) == nullptr) return said;
  const std::string flag = said.substr(0, said.find(':'));
  if (said.find("At Most") != std::string::npos) return flag + " is given more than once";
  return flag + " needs a value";
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

Error usage_error(const CLI::App& app, const CLI::App* verb, const CLI::ParseError& error) {
  // An argument that nobody takes is the cause of whatever else is found missing.
  const std::vector<std::string> left = app.remaining(true);
  if (!left.empty()) {
    const auto flag = std::find_if(left.begin(), left.end(),
                                   [](const std::string& text) { return text.starts_with("-"); });
    return unknown_argument(app, verb, flag != left.end() ? *flag : left.front());
  }
  if (verb == nullptr) {
    return Error(ErrorCode::usage,
                 fmt::format("needed is a verb: {}", fmt::join(verbs_of(app), ", ")));
  }
  const std::string missing = missing_argument(*verb);
  if (!missing.empty()) return Error(ErrorCode::usage, fmt::format("{} is not given", missing));
  return Error(ErrorCode::usage, plain_words(error));
}

}  // namespace weightloom::cli
