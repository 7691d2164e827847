// The command line as data: every verb with its arguments and flags, read off the parser. Shell
// completions and the manual page are written from it, so that no list of flags is kept twice.
#pragma once

#include <string>
#include <vector>

#include "weightloom/cli/command.h"

namespace weightloom::cli {

/// What may stand where a value is wanted.
struct ValueOutline {
  std::string text;                // as help shows it: "auto|none|NAME|FILE.json"; "": no value
  std::vector<std::string> words;  // those that can be given as they stand: auto, none
  bool files = false;              // a path can
};

/// A flag or an argument.
struct OptionOutline {
  std::vector<std::string> names;  // "--help", "-h"; of an argument "SRC"
  std::string meaning;             // one line
  ValueOutline value;
  bool required = false;
};

struct VerbOutline {
  std::string name;
  std::string summary;      // one line
  std::string description;  // more lines, or none
  std::string footer;       // examples
  std::vector<OptionOutline> arguments;
  std::vector<OptionOutline> flags;
};

struct CommandOutline {
  std::string name;
  std::string description;
  std::string footer;
  std::vector<OptionOutline> flags;
  std::vector<VerbOutline> verbs;  // without hidden ones
};

/// Of the whole program.
CommandOutline outline_of(const CLI::App& program);

}  // namespace weightloom::cli
