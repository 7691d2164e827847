#include "weightloom/cli/completion_command.h"

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include "weightloom/base/error.h"
#include "weightloom/base/quote.h"
#include "weightloom/cli/shell_completion.h"

namespace weightloom::cli {
namespace {

class CompletionCommand : public Command {
 public:
  std::string name() const override { return "completion"; }
  std::string summary() const override {
    return "Prints the completion script of a shell\n"
           "\n"
           "cmake --install puts the scripts where the shells look for them.\n";
  }
  std::string examples() const override {
    return "Examples:\n"
           "  source <(weightloom completion bash)\n"
           "  weightloom completion zsh > ~/.zfunc/_weightloom\n"
           "  weightloom completion fish > ~/.config/fish/completions/weightloom.fish";
  }
  bool is_hidden() const override { return true; }

  void declare(CLI::App& app) override {
    app_ = &app;
    app.add_option("SHELL", shell_, "bash, zsh or fish")->required()->option_text(" ");
  }

  ExitCode run(const CommandContext&) override {
    write_stdout(script(outline_of(*app_->get_parent())));
    return ExitCode::done;
  }

 private:
  std::string script(const CommandOutline& outline) const {
    if (shell_ == "bash") return bash_completion(outline);
    if (shell_ == "zsh") return zsh_completion(outline);
    if (shell_ == "fish") return fish_completion(outline);
    throw Error(ErrorCode::usage, fmt::format("{} is none of bash, zsh, fish", quote(shell_)));
  }

  CLI::App* app_ = nullptr;
  std::string shell_;
};

}  // namespace

std::unique_ptr<Command> make_completion_command() { return std::make_unique<CompletionCommand>(); }

}  // namespace weightloom::cli
