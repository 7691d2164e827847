// For tests: conversions of tiny checkpoints in one call, and folders as maps.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "weightloom/base/file.h"
#include "weightloom/execute/convert.h"
#include "weightloom/mapping/registry.h"
#include "weightloom/plan/conversion.h"
#include "weightloom/plan/tiny_checkpoint_testing.h"
#include "weightloom/safetensors/checkpoint.h"

namespace weightloom::testing {

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
    tensors[tensor.name] =
        tensor_text(tensor.dtype, tensor.shape,
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
