#include "weightloom/cli/inspect_command.h"

#include <algorithm>
#include <map>
#include <optional>
#include <string_view>
#include <utility>

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include "weightloom/base/byte_size.h"
#include "weightloom/cli/command_options.h"
#include "weightloom/cli/finding_output.h"
#include "weightloom/cli/json_output.h"
#include "weightloom/cli/placement_text.h"
#include "weightloom/cli/quantity.h"
#include "weightloom/cli/table.h"
#include "weightloom/cli/tensor_groups.h"
#include "weightloom/execute/budget.h"
#include "weightloom/plan/mapping_choice.h"
#include "weightloom/safetensors/checkpoint.h"
#include "weightloom/sharding/whole_tensors.h"

namespace weightloom::cli {
namespace {

/// A tensor as the checkpoint means it: of a sharded folder whole.
struct WholeTensor {
  std::string name;
  DType dtype = DType::F32;
  Shape shape;
  int64_t size_bytes = 0;
  const StoredTensor* stored = nullptr;  // where it stands; null if it is spread
  std::string placements{};              // how it is spread, as placement_text says it
};

/// What inspect knows of a checkpoint.
struct Inspection {
  Checkpoint checkpoint;
  SideFacts facts;
  MappingChoice choice;
  Side side = Side::unknown;
  std::vector<WholeTensor> tensors{};
  std::optional<MeshSet> meshes{};  // of a sharded folder with a manifest
  int64_t replicas = 0;             // parts that another rank holds too
  int64_t parameters = 0;
  int64_t bytes = 0;  // of the tensors, whole
  std::vector<Finding> findings{};
};

/// The tensors, whole, and what is wrong with their parts.
void add_tensors(const Syscalls& calls, Inspection& seen) {
  const WholeTensors whole = whole_tensors(calls, seen.checkpoint);
  const bool is_sharded = seen.checkpoint.is_sharded();
  for (size_t i = 0; i < whole.tensors.size(); ++i) {
    const NamedLayout& tensor = whole.tensors[i];
    const Shape& shape = tensor.layout.shape();
    seen.tensors.push_back({tensor.name, tensor.dtype, shape,
                            checked_bytes(tensor.dtype, shape).value_or(0),
                            is_sharded ? nullptr : &seen.checkpoint.tensors()[i]});
    seen.parameters += elements(shape);
    seen.bytes += seen.tensors.back().size_bytes;
  }
  seen.replicas = static_cast<int64_t>(whole.replicas.size());
  seen.findings.insert(seen.findings.end(), whole.findings.begin(), whole.findings.end());
  if (!whole.manifest) return;
  seen.meshes = whole.manifest->meshes;
  for (WholeTensor& tensor : seen.tensors) {
    const auto& known = whole.manifest->tensors;
    const auto at = std::ranges::lower_bound(known, tensor.name, {}, &ShardedTensor::name);
    if (at != known.end() && at->name == tensor.name) {
      tensor.placements = placement_text(at->sharding);
    }
  }
}

Inspection inspect(const Syscalls& calls, const std::string& path) {
  Checkpoint checkpoint = Checkpoint::open(calls, path, default_threads());
  SideFacts facts = read_side_facts(calls, checkpoint);
  MappingChoice choice =
      choose_mapping(calls, checkpoint, facts, "auto", Registry::built_in(), false);
  const Side side = detect_side(checkpoint, facts, choice.mapping, choice.model.runtime);
  Inspection seen = {std::move(checkpoint), std::move(facts), std::move(choice), side};
  seen.findings.assign(seen.checkpoint.findings().begin(), seen.checkpoint.findings().end());
  seen.findings.insert(seen.findings.end(), seen.choice.findings.begin(),
                       seen.choice.findings.end());
  add_tensors(calls, seen);
  return seen;
}

const std::string& file_name_of(const Inspection& seen, const StoredTensor& tensor) {
  return seen.checkpoint.files()[static_cast<size_t>(tensor.file)].name;
}

void write_tensor(JsonWriter& json, const Inspection& seen, const WholeTensor& tensor) {
  json.begin_object().field("name", tensor.name).field("dtype", to_string(tensor.dtype));
  json.field("shape", tensor.shape);
  if (tensor.stored != nullptr) {
    json.field("file", file_name_of(seen, *tensor.stored));
    json.field("offset", tensor.stored->offset_bytes);
  }
  json.field("bytes", tensor.size_bytes);
  if (!tensor.placements.empty()) json.field("placements", tensor.placements);
  json.end_object();
}

void write_mesh(JsonWriter& json, const Inspection& seen) {
  if (!seen.checkpoint.is_sharded()) return;
  json.field("mesh", seen.meshes ? to_string(*seen.meshes) : std::string());
  json.field("stored_bytes", seen.checkpoint.data_bytes()).field("replicas", seen.replicas);
}

void write_model(JsonWriter& json, const ModelConfig& config) {
  json.begin_object().key("architectures").begin_array();
  for (const std::string& architecture : config.architectures()) json.value(architecture);
  json.end_array().field("model_type", config.model_type()).end_object();
}

std::string as_json(const Inspection& seen) {
  JsonWriter json;
  json.begin_object().key("files").begin_array();
  for (const CheckpointFile& file : seen.checkpoint.files()) json.value(file.name);
  json.end_array().key("tensors").begin_array();
  for (const WholeTensor& tensor : seen.tensors) write_tensor(json, seen, tensor);
  json.end_array().field("parameters", seen.parameters);
  write_mesh(json.field("bytes", seen.bytes), seen);
  json.key("model");
  write_model(json, seen.facts.config);
  json.field("mapping", seen.choice.label).field("side", to_string(seen.side));
  json.key("findings");
  write_findings(json, seen.findings);
  json.end_object();
  return std::move(json).finish();
}

std::string model_text(const ModelConfig& config) {
  if (!config.present()) return "unknown (no config.json)";
  std::string type = config.model_type().empty() ? "no model_type" : config.model_type();
  if (config.architectures().empty()) return type;
  return fmt::format("{} ({})", type, fmt::join(config.architectures(), ", "));
}

std::string mapping_text(const Inspection& seen) {
  const std::string& label = seen.choice.label;
  if (label == "plain") return "none needed: the runtime layout is the hub layout";
  if (seen.choice.mapping.empty()) return label;
  if (seen.side == Side::unknown) return label + "; the names do not tell hub from runtime";
  return fmt::format("{}; the names are those of the {} layout", label, to_string(seen.side));
}

/// "F32 in 3 tensors (12.0 KiB), BF16 in 995 tensors (86.99 GiB)", in the order of dtypes.
std::string dtypes_text(const Inspection& seen) {
  struct Share {
    int64_t tensors = 0;
    int64_t bytes = 0;
  };
  std::map<DType, Share> shares;
  for (const WholeTensor& tensor : seen.tensors) {
    Share& share = shares[tensor.dtype];
    ++share.tensors;
    share.bytes += tensor.size_bytes;
  }
  std::vector<std::string> parts;
  parts.reserve(shares.size());
  for (const auto& [dtype, share] : shares) {
    parts.push_back(fmt::format("{} in {} ({})", to_string(dtype),
                                count_text(share.tensors, "tensor"),
                                format_byte_size(share.bytes)));
  }
  return fmt::format("{}", fmt::join(parts, ", "));
}

std::string files_text(const Checkpoint& checkpoint) {
  const auto files = checkpoint.files();
  if (files.size() == 1) return printable(files.front().name);
  std::string text = fmt::to_string(files.size());
  if (!files.empty()) {
    text += fmt::format(" ({} … {})", printable(files.front().name), printable(files.back().name));
  }
  return text;
}

/// "fsdp=4,tp=2: 8 ranks", or what there is to say without a manifest.
std::string sharded_text(const Inspection& seen) {
  if (!seen.meshes) return "shards of PyTorch's distributed checkpoints";
  return fmt::format("{}: {}", to_string(*seen.meshes), count_text(seen.meshes->size(), "rank"));
}

/// Of the whole tensors; beside it what is stored, if that is more.
std::string size_text(const Inspection& seen) {
  std::string whole = format_byte_size(seen.bytes);
  const int64_t stored = seen.checkpoint.data_bytes();
  if (!seen.checkpoint.is_sharded() || stored == seen.bytes) return whole;
  return fmt::format("{}, {} stored", whole, format_byte_size(stored));
}

std::string summary_text(const Inspection& seen) {
  const Checkpoint& checkpoint = seen.checkpoint;
  Table table({Align::left, Align::left});
  table.add({"model", printable(model_text(seen.facts.config))});
  table.add({"mapping", printable(mapping_text(seen))});
  if (checkpoint.is_sharded()) table.add({"sharded", sharded_text(seen)});
  table.add({"tensors", fmt::to_string(seen.tensors.size())});
  table.add({"parameters", parameters_text(seen.parameters)});
  table.add({"size", size_text(seen)});
  if (!seen.tensors.empty()) table.add({"dtypes", dtypes_text(seen)});
  table.add({"files", files_text(checkpoint)});
  return table.text(2);
}

/// Tensors that are spread alike, of one table.
struct SpreadGroup {
  std::string placements;
  TensorGroups groups;
};

std::string folded_tensors(const Inspection& seen) {
  std::vector<SpreadGroup> spreads;
  for (const WholeTensor& tensor : seen.tensors) {
    auto spread = std::ranges::find(spreads, tensor.placements, &SpreadGroup::placements);
    if (spread == spreads.end()) {
      spreads.push_back({tensor.placements, {}});
      spread = spreads.end() - 1;
    }
    spread->groups.add(tensor.name, tensor.dtype, tensor.shape, tensor.size_bytes);
  }
  Table table({Align::left, Align::left, Align::right, Align::right, Align::left});
  for (const SpreadGroup& spread : spreads) {
    for (const TensorGroup& group : spread.groups.groups()) {
      table.add({printable(group.name.text()), type_text(group.dtype, group.shape),
                 times_text(group.name.count()), format_byte_size(group.bytes),
                 printable(spread.placements)});
    }
  }
  return table.text(2);
}

std::string all_tensors(const Inspection& seen) {
  Table table({Align::left, Align::left, Align::right, Align::left});
  for (const WholeTensor& tensor : seen.tensors) {
    table.add({printable(tensor.name), type_text(tensor.dtype, tensor.shape),
               format_byte_size(tensor.size_bytes),
               printable(tensor.stored != nullptr ? file_name_of(seen, *tensor.stored)
                                                  : tensor.placements)});
  }
  return table.text(2);
}

class InspectCommand : public Command {
 public:
  std::string name() const override { return "inspect"; }
  std::string summary() const override {
    return "What a checkpoint holds: tensors, dtypes, sizes, model, mapping\n"
           "\n"
           "Reads headers only, so it takes no time whatever the size. Tensors whose names\n"
           "differ in numbers only are folded into one line: layers.{0..31}.w.\n";
  }
  std::string examples() const override {
    return "Examples:\n"
           "  weightloom inspect Mixtral-8x7B\n"
           "  weightloom inspect model.safetensors --all\n"
           "  weightloom inspect Mixtral-8x7B --json | jq '.tensors[].name'";
  }

  void declare(CLI::App& app) override {
    add_path(app, "PATH", path_, "A folder, a .safetensors file, or a .safetensors.index.json");
    app.add_flag("--all", all_,
                 "List each tensor with its file, or how it is spread\n(default: folded)");
    add_json_flag(app, print_);
  }

  ExitCode run(const CommandContext& context) override {
    const Inspection seen = inspect(context.calls, path_);
    write_stdout(print_.json ? as_json(seen) : as_text(seen, context.out));
    return ExitCode::done;
  }

 private:
  std::string as_text(const Inspection& seen, const Terminal& on) const {
    std::string text = styled(on, Style::bold, printable(seen.checkpoint.path())) + "\n";
    text += summary_text(seen);
    text += "\n";
    text += all_ ? all_tensors(seen) : folded_tensors(seen);
    if (!seen.findings.empty()) text += "\n" + findings_text(seen.findings, false, on);
    return text;
  }

  std::string path_;
  bool all_ = false;
  PrintFlags print_;
};

}  // namespace

std::unique_ptr<Command> make_inspect_command() { return std::make_unique<InspectCommand>(); }

}  // namespace weightloom::cli
