#include "weightloom/cli/help_format.h"

#include <fmt/format.h>

namespace weightloom::cli {
namespace {

constexpr size_t kFlagColumns = 38;

}  // namespace

const char* const kProgramHelp =
    "Moves model weights between the layout they are stored in and the layout a\n"
    "program runs them in, and back, bit for bit.\n";

const char* const kProgramFooter =
    "Quick start:\n"
    "  weightloom inspect Mixtral-8x7B\n"
    "  weightloom convert Mixtral-8x7B Mixtral-8x7B-runtime --to runtime\n"
    "  weightloom verify Mixtral-8x7B Mixtral-8x7B-runtime\n"
    "\n"
    "Exit codes:\n"
    "  0  done, or equal (notes never change it)\n"
    "  1  plan, verify, diff: errors or differences were found\n"
    "  2  wrong usage\n"
    "  3  refused, failed or cancelled; the destination is as it was\n"
    "\n"
    "weightloom VERB --help shows a verb's flags and examples.";

HelpFormat::HelpFormat() {
  column_width(kFlagColumns);
  label("Positionals", "Arguments");
}

std::string HelpFormat::make_usage(const CLI::App* app, std::string name) const {
  std::string usage = fmt::format("Usage: {}", name);
  if (app->get_parent() == nullptr) return usage + " VERB [FLAGS]\n";
  for (const CLI::Option* option : app->get_options()) {
    if (!option->get_positional()) continue;
    const std::string argument = option->get_name(true);
    usage += option->get_required() ? " " + argument : " [" + argument + "]";
  }
  return usage + " [FLAGS]\n";
}

std::string HelpFormat::make_subcommand(const CLI::App* verb) const {
  // Only the first line: the rest is for the verb's own help.
  const std::string description = verb->get_description();
  return fmt::format("  {:<14}{}\n", verb->get_name(),
                     description.substr(0, description.find('\n')));
}

}  // namespace weightloom::cli
