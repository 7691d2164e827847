#include "weightloom/cli/man_command.h"

#include <CLI/CLI.hpp>

#include "weightloom/cli/manual_page.h"

namespace weightloom::cli {
namespace {

class ManCommand : public Command {
 public:
  std::string name() const override { return "man"; }
  std::string summary() const override { return "Prints the manual page, weightloom(1)"; }
  std::string examples() const override {
    return "Examples:\n"
           "  weightloom man | man -l -";
  }
  bool is_hidden() const override { return true; }

  void declare(CLI::App& app) override { app_ = &app; }

  ExitCode run(const CommandContext&) override {
    write_stdout(manual_page(outline_of(*app_->get_parent())));
    return ExitCode::done;
  }

 private:
  CLI::App* app_ = nullptr;
};

}  // namespace

std::unique_ptr<Command> make_man_command() { return std::make_unique<ManCommand>(); }

}  // namespace weightloom::cli
