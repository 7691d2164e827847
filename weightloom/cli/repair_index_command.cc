#include "weightloom/cli/repair_index_command.h"

#include <string>

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include "weightloom/base/byte_size.h"
#include "weightloom/cli/command_options.h"
#include "weightloom/cli/finding_output.h"
#include "weightloom/cli/json_output.h"
#include "weightloom/cli/quantity.h"
#include "weightloom/cli/table.h"
#include "weightloom/execute/budget.h"
#include "weightloom/safetensors/index_repair.h"

namespace weightloom::cli {
namespace {

/// A repair and what was done of it.
struct Repaired {
  IndexRepair repair;
  bool written = false;
  std::string backup;  // the old index's new name
};

std::string as_json(const Repaired& done) {
  const IndexRepair& repair = done.repair;
  JsonWriter json;
  json.begin_object().field("index", repair.name).field("changes", repair.changes);
  json.field("written", done.written).field("backup", done.backup).key("files").begin_array();
  for (const std::string& file : repair.files) json.value(file);
  json.end_array().field("tensors", repair.tensors).field("bytes", repair.total_bytes);
  json.key("findings");
  write_findings(json, repair.findings);
  json.end_object();
  return std::move(json).finish();
}

std::string outcome_text(const Repaired& done) {
  if (!done.repair.changes) return "right as it is; nothing is written";
  if (!done.written) return "would be written (--dry-run)";
  return done.backup.empty() ? "written"
                             : fmt::format("written; the old one is {}", printable(done.backup));
}

std::string as_text(const Repaired& done, const Terminal& on) {
  const IndexRepair& repair = done.repair;
  const std::string where = repair.folder + "/" + repair.name;
  Table table({Align::left, Align::left});
  table.add({"tensors", fmt::format("{} in {}", repair.tensors,
                                    count_text(std::ssize(repair.files), "file"))});
  table.add({"size", format_byte_size(repair.total_bytes)});
  table.add({"index", outcome_text(done)});
  std::string text = styled(on, Style::bold, printable(where)) + "\n" + table.text(2);
  if (!repair.findings.empty()) text += "\n" + findings_text(repair.findings, false, on);
  return text;
}

class RepairIndexCommand : public Command {
 public:
  std::string name() const override { return "repair-index"; }
  std::string summary() const override {
    return "Makes a folder's index again from the headers of its files\n"
           "\n"
           "Nothing is guessed: files are those that the index names, or their whole numbered\n"
           "set; without an index, those that make the checkpoint. A missing file, a name in two\n"
           "files, and a name that no file holds are refused. The index is replaced in one step,\n"
           "and the old one is kept beside it, with .bak at its end.\n";
  }
  std::string examples() const override {
    return "Examples:\n"
           "  weightloom repair-index Mixtral-8x7B --dry-run\n"
           "  weightloom repair-index Mixtral-8x7B";
  }

  void declare(CLI::App& app) override {
    add_path(app, "DIR", folder_, "The folder that holds the index and its files");
    app.add_flag("--drop-missing", options_.drop_missing,
                 "Leave out names of the index that no file holds\n"
                 "(default: refuse)");
    app.add_flag("--dry-run", dry_run_, "Show what would change, and write nothing");
    add_quiet_flag(app, print_);
    add_json_flag(app, print_);
  }

  ExitCode run(const CommandContext& context) override {
    Repaired done;
    done.repair = repair_index(context.calls, folder_, options_, default_threads());
    if (done.repair.changes && !dry_run_) {
      done.backup = write_index(context.calls, done.repair);
      done.written = true;
    }
    if (print_.json) {
      write_stdout(as_json(done));
    } else if (!print_.quiet) {
      write_stdout(as_text(done, context.out));
    }
    return ExitCode::done;
  }

 private:
  std::string folder_;
  IndexRepairOptions options_;
  bool dry_run_ = false;
  PrintFlags print_;
};

}  // namespace

std::unique_ptr<Command> make_repair_index_command() {
  return std::make_unique<RepairIndexCommand>();
}

}  // namespace weightloom::cli
