#include "weightloom/cli/mappings_command.h"

#include <string>
#include <string_view>

#include <CLI/CLI.hpp>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include "weightloom/base/error.h"
#include "weightloom/base/quote.h"
#include "weightloom/cli/command_options.h"
#include "weightloom/cli/json_output.h"
#include "weightloom/cli/quantity.h"
#include "weightloom/cli/table.h"
#include "weightloom/mapping/registry.h"

namespace weightloom::cli {
namespace {

/// A mapping as the list tells it.
struct MappingLine {
  const Mapping* mapping = nullptr;
  int64_t renamings = 0;
  int64_t converters = 0;
};

std::vector<MappingLine> lines_of(const Registry& registry) {
  std::vector<MappingLine> lines;
  for (const std::string& name : registry.names()) {
    MappingLine line = {registry.find(name)};
    for (const WeightTransform& transform : line.mapping->transforms()) {
      const bool converts = form_of(transform).converts;
      (converts ? line.converters : line.renamings) += 1;
    }
    lines.push_back(line);
  }
  return lines;
}

std::string list_json(const Registry& registry) {
  JsonWriter json;
  json.begin_object().key("mappings").begin_array();
  for (const MappingLine& line : lines_of(registry)) {
    json.begin_object().field("name", line.mapping->name()).key("aliases").begin_array();
    for (const std::string& alias : line.mapping->aliases()) json.value(alias);
    json.end_array().field("renamings", line.renamings).field("converters", line.converters);
    json.end_object();
  }
  json.end_array().field("plain_model_types", registry.plain_count()).end_object();
  return std::move(json).finish();
}

/// "also a, b," and "c, d" when one line is too short for them.
std::vector<std::string> alias_lines(const std::vector<std::string>& aliases) {
  constexpr size_t kColumns = 56;
  std::vector<std::string> lines = {aliases.empty() ? "" : "also"};
  for (size_t i = 0; i < aliases.size(); ++i) {
    if (lines.back().size() + aliases[i].size() > kColumns) lines.emplace_back("    ");
    lines.back() += " " + aliases[i] + (i + 1 < aliases.size() ? "," : "");
  }
  return lines;
}

std::string list_text(const Registry& registry) {
  Table table({Align::left, Align::right, Align::right, Align::left});
  for (const MappingLine& line : lines_of(registry)) {
    const auto aliases = alias_lines(line.mapping->aliases());
    table.add({line.mapping->name(), count_text(line.renamings, "renaming"),
               count_text(line.converters, "converter"), aliases.front()});
    for (size_t i = 1; i < aliases.size(); ++i) table.add({"", "", "", aliases[i]});
  }
  return table.text() + fmt::format("\n{} need no mapping\n",
                                    count_text(registry.plain_count(), "other model type"));
}

Error unknown_name(const Registry& registry, const std::string& name) {
  if (registry.is_plain(name)) {
    return Error(
        ErrorCode::not_found,
        fmt::format("{} needs no mapping: its runtime layout is its hub layout", quote(name)),
        "use --mapping auto or none with it");
  }
  std::string message = fmt::format("no mapping is called {}", quote(name));
  const auto similar = registry.similar(name);
  if (!similar.empty()) message += fmt::format("; did you mean {}?", fmt::join(similar, " or "));
  return Error(ErrorCode::not_found, message, "'weightloom mappings' lists them");
}

class MappingsCommand : public Command {
 public:
  std::string name() const override { return "mappings"; }
  std::string summary() const override {
    return "The mappings there are; one in full\n"
           "\n"
           "A mapping says how hub names and tensors become those of the runtime layout. NAME is\n"
           "a mapping or one of its aliases; what is printed of it is a file for --mapping.\n";
  }
  std::string examples() const override {
    return "Examples:\n"
           "  weightloom mappings\n"
           "  weightloom mappings mixtral\n"
           "  weightloom mappings mixtral > own.json";
  }

  void declare(CLI::App& app) override {
    app.add_option("NAME", name_, "A mapping, to be printed in full")->option_text(" ");
    add_json_flag(app, print_);
  }

  ExitCode run(const CommandContext&) override {
    const Registry registry = Registry::built_in();
    write_stdout(name_.empty() ? (print_.json ? list_json(registry) : list_text(registry))
                               : in_full(registry));
    return ExitCode::done;
  }

 private:
  /// The file form, which is JSON whatever the flags.
  std::string in_full(const Registry& registry) const {
    const Mapping* mapping = registry.find(name_);
    if (mapping == nullptr) throw unknown_name(registry, name_);
    std::string text = mapping->to_json();
    if (!text.ends_with('\n')) text += '\n';
    return text;
  }

  std::string name_;
  PrintFlags print_;
};

}  // namespace

std::unique_ptr<Command> make_mappings_command() { return std::make_unique<MappingsCommand>(); }

}  // namespace weightloom::cli
