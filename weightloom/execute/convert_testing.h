// For tests: tiny Mixtral checkpoints on disk, conversions of them in one call, and folders as maps.
#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "weightloom/base/file.h"
#include "weightloom/base/forwarding_syscalls_testing.h"
#include "weightloom/base/hash.h"
#include "weightloom/execute/convert.h"
#include "weightloom/mapping/registry.h"
#include "weightloom/plan/conversion.h"
#include "weightloom/safetensors/checkpoint.h"
#include "weightloom/safetensors/shard_layout.h"

namespace weightloom::testing {

/// Does everything but wait for the disk.
inline const Syscalls& quick_calls() {
  static const UnsyncedSyscalls calls;
  return calls;
}

using Folder = std::map<std::string, std::string>;  // relative path → content

struct TinyModel {
  int64_t layers = 1;
  int64_t experts = 2;
  int64_t hidden = 4;
  int64_t ffn = 6;
};

inline std::vector<TensorSpec> hub_specs(const TinyModel& model = {}) {
  std::vector<TensorSpec> specs{{"lm_head.weight", DType::BF16, {5, model.hidden}},
                                {"model.norm.weight", DType::F32, {model.hidden}}};
  for (int64_t layer = 0; layer < model.layers; ++layer) {
    const std::string moe = "model.layers." + std::to_string(layer) + ".block_sparse_moe.";
    specs.push_back({moe + "gate.weight", DType::BF16, {model.experts, model.hidden}});
    for (int64_t expert = 0; expert < model.experts; ++expert) {
      const std::string name = moe + "experts." + std::to_string(expert);
      specs.push_back({name + ".w1.weight", DType::BF16, {model.ffn, model.hidden}});
      specs.push_back({name + ".w2.weight", DType::BF16, {model.hidden, model.ffn}});
      specs.push_back({name + ".w3.weight", DType::BF16, {model.ffn, model.hidden}});
    }
  }
  return specs;
}

/// Bytes that tell their tensor and place.
inline std::string content_of(const TensorSpec& spec) {
  std::string bytes(static_cast<size_t>(*checked_bytes(spec.dtype, spec.shape)), '\0');
  uint64_t state = fnv1a64(spec.name);
  for (char& byte : bytes) {
    state = state * 6364136223846793005U + 1442695040888963407U;
    byte = static_cast<char>(state >> 56);
  }
  return bytes;
}

inline void write_text(const std::string& path, std::string_view text) {
  write_whole_file(quick_calls(), path, text);
}

/// The files of a checkpoint with these tensors, in shards of at most `max_shard_bytes`.
inline Folder checkpoint_files(const std::vector<TensorSpec>& specs,
                               int64_t max_shard_bytes = 1 << 30) {
  Folder files;
  const auto layout = ShardLayout::by_size(specs, max_shard_bytes, {{"format", "pt"}});
  for (const ShardFile& shard : layout.files()) {
    std::string text = shard.header.bytes();
    for (const HeaderTensor& tensor : shard.header.tensors()) {
      text += content_of({tensor.name, tensor.dtype, tensor.shape});
    }
    files[shard.name] = std::move(text);
  }
  if (layout.index()) files[layout.index()->first] = layout.index()->second;
  return files;
}

inline void write_folder(const std::string& path, const Folder& files) {
  make_folder(quick_calls(), path);
  for (const auto& [name, text] : files) {
    for (size_t slash = name.find('/'); slash != std::string::npos;
         slash = name.find('/', slash + 1)) {
      make_folder(quick_calls(), join_path(path, name.substr(0, slash)));
    }
    write_text(join_path(path, name), text);
  }
}

inline std::string config_of(const TinyModel& model) {
  return R"({"model_type": "mixtral", "num_local_experts": )" + std::to_string(model.experts) + "}";
}

/// A tiny Mixtral folder, sharded or not, with config and tokenizer.
inline Folder hub_files(int64_t max_shard_bytes = 1 << 30, const TinyModel& model = {}) {
  Folder files = checkpoint_files(hub_specs(model), max_shard_bytes);
  files["config.json"] = config_of(model);
  files["tokenizer.json"] = "{\"version\": \"1.0\"}";
  return files;
}

inline void read_below(const std::string& path, const std::string& prefix, Folder& files) {
  for (const std::string& name : list_folder(system_calls(), path)) {
    const std::string below = join_path(path, name);
    switch (system_calls().lstat(below).status.kind) {
      case FileKind::folder:
        read_below(below, prefix + name + "/", files);
        break;
      case FileKind::link:
        files[prefix + name] = "-> " + system_calls().readlink(below).target;
        break;
      case FileKind::file:
      case FileKind::other:
        files[prefix + name] = read_whole_file(system_calls(), below);
    }
  }
}

/// Every file of a folder; a single file stands under ""; nothing if there is no such path.
inline std::optional<Folder> read_folder(const std::string& path) {
  const auto status = status_of(system_calls(), path);
  if (!status) return std::nullopt;
  if (status->kind == FileKind::file) return Folder{{"", read_whole_file(system_calls(), path)}};
  Folder files;
  read_below(path, "", files);
  return files;
}

using Tensors = std::map<std::string, std::string>;  // name → "dtype shape bytes"

inline std::string tensor_text(DType dtype, const Shape& shape, std::string_view bytes) {
  return std::string(to_string(dtype)) + " " + to_string(shape) + " " + std::string(bytes);
}

inline Tensors read_tensors(const std::string& path) {
  const Checkpoint checkpoint = Checkpoint::open(system_calls(), path);
  Tensors tensors;
  for (const StoredTensor& tensor : checkpoint.tensors()) {
    const auto& file = checkpoint.files()[static_cast<size_t>(tensor.file)];
    const std::string text = read_whole_file(system_calls(), file.path);
    tensors[tensor.name] = tensor_text(
        tensor.dtype, tensor.shape,
        std::string_view(text).substr(static_cast<size_t>(tensor.offset_bytes),
                                      static_cast<size_t>(tensor.size_bytes)));
  }
  return tensors;
}

/// What the runtime wants, made with string concatenation: each expert's w1 rows then w3 rows, the
/// experts one after the other.
inline Tensors runtime_tensors(const TinyModel& model = {}) {
  Tensors tensors;
  for (const TensorSpec& spec : hub_specs(model)) {
    if (spec.name.find(".experts.") != std::string::npos) continue;
    std::string name = spec.name;
    const size_t at = name.find(".block_sparse_moe.");
    if (at != std::string::npos) name.replace(at, 18, ".mlp.");
    tensors[name] = tensor_text(spec.dtype, spec.shape, content_of(spec));
  }
  for (int64_t layer = 0; layer < model.layers; ++layer) {
    const std::string at = "model.layers." + std::to_string(layer);
    std::string gate_up;
    std::string down;
    for (int64_t expert = 0; expert < model.experts; ++expert) {
      const std::string name = at + ".block_sparse_moe.experts." + std::to_string(expert);
      gate_up += content_of({name + ".w1.weight", DType::BF16, {model.ffn, model.hidden}});
      gate_up += content_of({name + ".w3.weight", DType::BF16, {model.ffn, model.hidden}});
      down += content_of({name + ".w2.weight", DType::BF16, {model.hidden, model.ffn}});
    }
    tensors[at + ".mlp.experts.gate_up_proj"] =
        tensor_text(DType::BF16, {model.experts, 2 * model.ffn, model.hidden}, gate_up);
    tensors[at + ".mlp.experts.down_proj"] =
        tensor_text(DType::BF16, {model.experts, model.hidden, model.ffn}, down);
  }
  return tensors;
}

/// A conversion as a caller asks for it.
struct Job {
  std::string source;
  std::string destination;
  Selection selection;
  OutputOptions output;
  RunOptions run;
};

inline Job job(std::string source, std::string destination, std::optional<Side> to) {
  Job result{std::move(source), std::move(destination), {}, {}, {}};
  result.selection.to = to;
  result.run.threads = 1;
  result.run.memory_budget_bytes = int64_t{1} << 20;
  return result;
}

inline ConvertReport run(const Job& job, const Syscalls& calls = quick_calls()) {
  static const Registry registry = Registry::built_in();
  const Checkpoint source = Checkpoint::open(quick_calls(), job.source);
  const Conversion conversion = plan_conversion(quick_calls(), source, job.selection, registry);
  return convert(calls, source, conversion, job.selection.lenient, job.destination, job.output,
                 job.run);
}

}  // namespace weightloom::testing
