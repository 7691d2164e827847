// For tests: tiny Mixtral checkpoints on disk.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "weightloom/base/file.h"
#include "weightloom/base/forwarding_syscalls_testing.h"
#include "weightloom/base/hash.h"
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

}  // namespace weightloom::testing
