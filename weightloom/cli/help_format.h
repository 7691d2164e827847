// How `--help` looks: what it is for, the usage, every flag with its default, then examples.
#pragma once

#include <string>

#include <CLI/CLI.hpp>

namespace weightloom::cli {

class HelpFormat : public CLI::Formatter {
 public:
  HelpFormat();

  std::string make_usage(const CLI::App* app, std::string name) const override;
  std::string make_subcommand(const CLI::App* verb) const override;
};

/// What the program says of itself, before and after the list of verbs.
extern const char* const kProgramHelp;
extern const char* const kProgramFooter;

}  // namespace weightloom::cli
