#include "weightloom/cli/shell_completion.h"

#include <string_view>

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace weightloom::cli {
namespace {

/// `text` with a backslash before each of `special`.
std::string escaped(std::string_view text, std::string_view special) {
  std::string result;
  for (const char c : text) {
    if (special.find(c) != std::string_view::npos) result += '\\';
    result += c;
  }
  return result;
}

/// In single quotes, as every POSIX shell reads them.
std::string single_quoted(std::string_view text) {
  std::string result = "'";
  for (const char c : text) {
    if (c == '\'') {
      result += R"('\'')";
    } else {
      result += c;
    }
  }
  return result + "'";
}

std::string all_names(const std::vector<OptionOutline>& flags) {
  std::vector<std::string> names;
  for (const OptionOutline& flag : flags) {
    names.insert(names.end(), flag.names.begin(), flag.names.end());
  }
  return fmt::format("{}", fmt::join(names, " "));
}

/// What can be given as arguments of a verb, all taken together.
ValueOutline arguments_of(const VerbOutline& verb) {
  ValueOutline all;
  for (const OptionOutline& argument : verb.arguments) {
    all.words.insert(all.words.end(), argument.value.words.begin(), argument.value.words.end());
    all.files = all.files || argument.value.files;
  }
  return all;
}

std::string bash_case(const std::string& pattern, const std::string& flags,
                      const ValueOutline& value) {
  return fmt::format("    {}) flags={} words={} files={} ;;\n", pattern, single_quoted(flags),
                     single_quoted(fmt::format("{}", fmt::join(value.words, " "))),
                     value.files ? "yes" : "");
}

constexpr const char* kBashHead =
    R"(# bash completion of weightloom. Written by: weightloom completion bash
_weightloom() {
  local current=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD - 1]}
  local verb='' flags='' words='' files='' i
  # --to=hub is three words to bash.
  if [[ $current == '=' ]]; then
    current=''
  elif [[ $before == '=' ]]; then
    before=${COMP_WORDS[COMP_CWORD - 2]}
  fi
  for ((i = 1; i < COMP_CWORD; ++i)); do
    if [[ ${COMP_WORDS[i]} != -* ]]; then
      verb=${COMP_WORDS[i]}
      break
    fi
  done
  case "$verb $before" in
)";

constexpr const char* kBashMiddle = R"(    *) before='' ;;
  esac
  [[ -n $before ]] || case $verb in
)";

constexpr const char* kBashTail = R"(  esac
  [[ $current != -* ]] || words=$flags
  mapfile -t COMPREPLY < <(compgen -W "$words" -- "$current")
  if [[ -n $files && $current != -* ]]; then
    compopt -o filenames 2>/dev/null
    local paths
    mapfile -t paths < <(compgen -f -- "$current")
    COMPREPLY+=("${paths[@]}")
  fi
}
complete -F _weightloom weightloom
)";

/// "[meaning]" for _arguments.
std::string zsh_meaning(const std::string& meaning) {
  return "[" + escaped(meaning, "[]\\:") + "]";
}

/// ":what:action" for _arguments; "" for a flag without a value.
std::string zsh_value(const ValueOutline& value) {
  if (value.text.empty()) return "";
  const std::string what = escaped(value.text, ":\\");
  const std::string words = fmt::format("{}", fmt::join(value.words, " "));
  if (value.words.empty()) return fmt::format(":{}:{}", what, value.files ? "_files" : " ");
  if (!value.files) return fmt::format(":{}:({})", what, words);
  return fmt::format(":{}:{{compadd -- {}; _files}}", what, words);
}

std::string zsh_option(const OptionOutline& option) {
  std::string text;
  for (const std::string& name : option.names) {
    const std::string value = zsh_value(option.value);
    const std::string takes = value.empty() ? "" : name.starts_with("--") ? "=" : "+";
    const std::string spec =
        fmt::format("*{}{}{}{}", name, takes, zsh_meaning(option.meaning), value);
    text += fmt::format("    {} \\\n", single_quoted(spec));
  }
  return text;
}

std::string zsh_argument(const OptionOutline& argument) {
  ValueOutline value = argument.value;
  value.text = argument.names.front();
  return fmt::format("    {} \\\n",
                     single_quoted((argument.required ? "" : ":") + zsh_value(value)));
}

std::string zsh_verb(const VerbOutline& verb) {
  std::string text = fmt::format("  {}) _arguments -S \\\n", verb.name);
  for (const OptionOutline& flag : verb.flags) text += zsh_option(flag);
  for (const OptionOutline& argument : verb.arguments) text += zsh_argument(argument);
  text.erase(text.size() - 3);  // the last backslash
  return text + " ;;\n";
}

/// "-s h -l help".
std::string fish_names(const OptionOutline& option) {
  std::string text;
  for (const std::string& name : option.names) {
    text += name.starts_with("--") ? " -l " + name.substr(2) : " -s " + name.substr(1);
  }
  return text;
}

std::string fish_value(const ValueOutline& value) {
  if (value.text.empty()) return "";
  std::string text = value.files ? " -r -F" : " -x";
  if (!value.words.empty()) {
    text += " -a " + single_quoted(fmt::format("{}", fmt::join(value.words, " ")));
  }
  return text;
}

/// fish reads backslashes in single quotes.
std::string fish_quoted(const std::string& text) { return "'" + escaped(text, "'\\") + "'"; }

std::string fish_line(const std::string& condition, const std::string& rest,
                      const std::string& meaning) {
  return fmt::format("complete -c weightloom -n {}{} -d {}\n", fish_quoted(condition), rest,
                     fish_quoted(meaning));
}

std::string fish_verb(const VerbOutline& verb) {
  const std::string after = "__fish_seen_subcommand_from " + verb.name;
  std::string text = fish_line("__fish_use_subcommand", " -f -a " + verb.name, verb.summary);
  for (const OptionOutline& flag : verb.flags) {
    text += fish_line(after, fish_names(flag) + fish_value(flag.value), flag.meaning);
  }
  const ValueOutline arguments = arguments_of(verb);
  if (!arguments.words.empty()) {
    text += fmt::format("complete -c weightloom -n '{}' -f -a '{}'\n", after,
                        fmt::join(arguments.words, " "));
  }
  if (arguments.files) text += fmt::format("complete -c weightloom -n '{}' -F\n", after);
  return text;
}

}  // namespace

std::string bash_completion(const CommandOutline& outline) {
  std::string text = kBashHead;
  for (const VerbOutline& verb : outline.verbs) {
    for (const OptionOutline& flag : verb.flags) {
      for (const std::string& name : flag.names) {
        if (flag.value.text.empty()) continue;
        text += bash_case(single_quoted(verb.name + " " + name), "", flag.value);
      }
    }
  }
  text += kBashMiddle;
  ValueOutline verbs;
  for (const VerbOutline& verb : outline.verbs) verbs.words.push_back(verb.name);
  text += bash_case("''", all_names(outline.flags), verbs);
  for (const VerbOutline& verb : outline.verbs) {
    text += bash_case(verb.name, all_names(verb.flags), arguments_of(verb));
  }
  return text + kBashTail;
}

std::string zsh_completion(const CommandOutline& outline) {
  std::string text =
      "#compdef weightloom\n"
      "# zsh completion of weightloom. Written by: weightloom completion zsh\n"
      "local context state line curcontext=$curcontext\n"
      "local -a verbs=(\n";
  for (const VerbOutline& verb : outline.verbs) {
    text += fmt::format("  {}\n", single_quoted(verb.name + ":" + escaped(verb.summary, ":\\")));
  }
  text += ")\n_arguments -C \\\n";
  for (const OptionOutline& flag : outline.flags) text += zsh_option(flag);
  text += "    '1: :->verb' '*:: :->rest'\n";
  text += "[[ $state != verb ]] || _describe verb verbs\n";
  text += "[[ $state == rest ]] || return\n";
  text += "case $words[1] in\n";
  for (const VerbOutline& verb : outline.verbs) text += zsh_verb(verb);
  return text + "esac\n";
}

std::string fish_completion(const CommandOutline& outline) {
  std::string text =
      "# fish completion of weightloom. Written by: weightloom completion fish\n"
      "complete -c weightloom -f\n";
  for (const OptionOutline& flag : outline.flags) {
    text += fish_line("__fish_use_subcommand", fish_names(flag), flag.meaning);
  }
  for (const VerbOutline& verb : outline.verbs) text += fish_verb(verb);
  return text;
}

}  // namespace weightloom::cli
