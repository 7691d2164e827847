#include "weightloom/execute/output_layout.h"

#include <algorithm>
#include <map>
#include <optional>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "weightloom/base/file.h"
#include "weightloom/safetensors/rank_files.h"
#include "weightloom/sharding/dcp_parts.h"
#include "weightloom/sharding/local_parts.h"

namespace weightloom {
namespace {

std::vector<TensorSpec> specs_of(const CopyProgram& program) {
  std::vector<TensorSpec> specs;
  specs.reserve(program.targets().size());
  for (const ProgramTarget& target : program.targets()) {
    specs.push_back({target.name, target.dtype, target.shape});
  }
  return specs;
}

Index index_to_copy(const Syscalls& calls, const std::string& path) {
  if (path.ends_with(".json")) return parse_index(read_whole_file(calls, path), path);
  const Checkpoint like = Checkpoint::open(calls, path);
  if (like.index()) return parse_index(like.index()->second, like.index()->first);
  Index index;
  for (const StoredTensor& tensor : like.tensors()) {
    index.weight_map.emplace_back(tensor.name, like.files()[static_cast<size_t>(tensor.file)].name);
  }
  return index;
}

std::vector<ShardFile> shards_of(const std::vector<OriginalFile>& originals) {
  std::vector<ShardFile> shards;
  for (const OriginalFile& original : originals) {
    shards.push_back({original.name, Header::parse_alone(original.header_json, original.name)});
  }
  return shards;
}

std::string_view fault_of_shard_name(const ShardLayout& layout, const std::string& name) {
  if (name == kProvenanceName) return "the name of the record";
  if (layout.index() && name == layout.index()->first) return "the name of the index";
  return name.ends_with(".safetensors") ? "" : "a name that does not end in .safetensors";
}

/// Refuses a layout whose shards take the names of what convert itself writes beside them, or names
/// that no reader takes for weights.
ShardLayout with_sound_names(ShardLayout layout) {
  for (const ShardFile& file : layout.files()) {
    const std::string_view fault = fault_of_shard_name(layout, file.name);
    if (fault.empty()) continue;
    throw Error(ErrorCode::usage, fmt::format("{}: a shard cannot have {}", file.name, fault),
                "split by size with --max-shard-size, or like another checkpoint with "
                "--layout-from");
  }
  return layout;
}

bool has_sound_names(const ShardLayout& layout) {
  return std::ranges::all_of(layout.files(), [&](const ShardFile& file) {
    return fault_of_shard_name(layout, file.name).empty();
  });
}

/// The source's own files, where the layout stays and nothing is wrong with their names.
std::optional<ShardLayout> kept_layout(const Checkpoint& source, const Conversion& conversion,
                                       std::span<const TensorSpec> specs) {
  if (conversion.kept_names.empty()) return std::nullopt;
  std::optional<ShardLayout> layout =
      ShardLayout::like_source(specs, source, conversion.kept_names);
  return layout && has_sound_names(*layout) ? std::move(layout) : std::nullopt;
}

/// Where the parts of one rank begin in the whole tensors. Like parts share the answer.
class BoxOffsets {
 public:
  BoxOffsets(const MeshSet& meshes, int64_t rank) : parts_(meshes, rank) {}

  /// Nothing where the part is no one box.
  const std::optional<Shape>& of(const ShardedTensor& tensor) {
    const auto& part = parts_.of(tensor.sharding, tensor.shape);
    const auto [offsets, is_new] = offsets_.try_emplace(&part);
    if (is_new && part) offsets->second = box_offsets(*part, tensor.shape);
    return offsets->second;
  }

 private:
  LocalParts parts_;
  std::unordered_map<const std::optional<LocalPart>*, std::optional<Shape>> offsets_;
};

/// The first element that each tensor of a rank begins with in the whole, as PyTorch's distributed
/// checkpoints state it; nothing where a part is no one box.
std::optional<std::string> dcp_parts_of(const Conversion& conversion, int64_t rank,
                                        const std::vector<size_t>& targets) {
  const auto& tensors = conversion.manifest->tensors;
  auto tensor = tensors.begin();  // mostly the one after the last that was looked for
  BoxOffsets boxes(conversion.manifest->meshes, rank);
  std::vector<DcpPart> parts;
  parts.reserve(targets.size());
  for (const size_t i : targets) {
    const std::string& name = conversion.program.targets()[i].name;
    if (tensor == tensors.end() || tensor->name != name) {
      tensor = std::ranges::lower_bound(tensors, name, {}, &ShardedTensor::name);
    }
    const std::optional<Shape>& offsets = boxes.of(*tensor);
    if (!offsets) return std::nullopt;
    parts.push_back({name, *offsets});
    ++tensor;
  }
  return format_dcp_parts(parts);
}

/// One file for each rank that the program is of.
ShardLayout layout_by_rank(const Conversion& conversion, std::span<const TensorSpec> specs,
                           const std::string& destination) {
  std::map<int64_t, std::vector<size_t>> of_rank;
  for (const int64_t rank : conversion.made_ranks) of_rank[rank];
  for (size_t i = 0; i < specs.size(); ++i) of_rank[conversion.ranks[i]].push_back(i);
  if (is_single_file(destination) && of_rank.size() != 1) {
    throw Error(
        ErrorCode::usage,
        fmt::format("{}: is one file, and {} ranks have one each", destination, of_rank.size()),
        "give a folder, or one rank with --rank N");
  }
  std::vector<FileContent> files;
  bool all_boxes = true;
  for (auto& [rank, targets] : of_rank) {
    const std::string name = is_single_file(destination)
                                 ? base_name(destination)
                                 : rank_file_name(rank, conversion.manifest->meshes.size());
    Metadata metadata = conversion.metadata;
    const auto parts = dcp_parts_of(conversion, rank, targets);
    all_boxes = all_boxes && parts;
    if (parts) metadata.emplace_back(kDcpShardingKey, *parts);
    files.push_back({name, std::move(targets), std::move(metadata)});
  }
  // Who reads only this key would take a file without it for whole tensors.
  if (!all_boxes) {
    for (FileContent& file : files) file.metadata = conversion.metadata;
  }
  return ShardLayout::by_file(specs, files);
}

}  // namespace

bool is_single_file(const std::string& destination) {
  return destination.ends_with(".safetensors");
}

ShardLayout output_layout(const Syscalls& calls, const Checkpoint& source,
                          const Conversion& conversion, const std::string& destination,
                          const OutputOptions& output) {
  const std::vector<TensorSpec> specs = specs_of(conversion.program);
  if (conversion.manifest) return layout_by_rank(conversion, specs, destination);
  if (is_single_file(destination)) {
    return ShardLayout::one_file(specs, base_name(destination), conversion.metadata);
  }
  if (output.layout_from) {
    return with_sound_names(ShardLayout::like_index(
        specs, index_to_copy(calls, *output.layout_from), conversion.metadata));
  }
  if (!conversion.original_files.empty() && !output.max_shard_given) {
    return with_sound_names(ShardLayout::verbatim(specs, shards_of(conversion.original_files),
                                                  conversion.original_index));
  }
  if (!output.max_shard_given) {
    if (auto kept = kept_layout(source, conversion, specs)) return *std::move(kept);
  }
  return ShardLayout::by_size(specs, output.max_shard_bytes, conversion.metadata);
}

}  // namespace weightloom
