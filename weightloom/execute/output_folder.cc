#include <set>
#include <string_view>
#include <vector>

#include <fmt/format.h>

#include "weightloom/execute/checksums.h"
#include "weightloom/execute/config_edit_internal.h"
#include "weightloom/execute/output_folder_internal.h"
#include "weightloom/execute/side_files_internal.h"
#include "weightloom/safetensors/rank_files.h"

namespace weightloom {
namespace {

std::set<std::string> shard_names(const ShardLayout& layout) {
  std::set<std::string> names;
  for (const ShardFile& file : layout.files()) names.insert(file.name);
  return names;
}

/// True if a reader of the output folder cannot take other weights beside it for part of it.
bool stands_by_itself(const ShardLayout& layout) {
  return layout.index() || shard_names(layout).contains("model.safetensors");
}

bool replaces_source(const OutputFolder& output) {
  const auto a = status_of(output.calls, output.source.folder());
  const auto b = status_of(output.calls, output.work.destination());
  return a && b && a->device == b->device && a->inode == b->inode;
}

/// True if the destination is a sharded folder of the same manifest: other ranks' files stay.
bool adds_to_destination(const OutputFolder& output) {
  if (!output.manifest) return false;
  const std::string path = join_path(output.work.destination(), std::string(kManifestName));
  return status_of(output.calls, path) && read_whole_file(output.calls, path) == *output.manifest;
}

/// Links what stands in the destination, but for these and what the layout writes.
void link_all_but(const Syscalls& calls, const WorkFolder& work, const ShardLayout& layout,
                  std::set<std::string> skip) {
  skip.merge(shard_names(layout));
  if (layout.index()) skip.insert(layout.index()->first);
  link_tree(calls, work.destination(), work.out(), skip);
}

std::set<std::string> files_to_replace(const OutputFolder& output) {
  if (adds_to_destination(output)) {
    return {std::string(kManifestName), std::string(kProvenanceName), std::string(kChecksumsName)};
  }
  return replaced_files(output.calls, output.work.destination(), stands_by_itself(output.layout));
}

void keep_files_of_destination(const OutputFolder& output, const std::vector<std::string>& copied) {
  if (!output.work.destination_exists()) return;
  std::set<std::string> skip = files_to_replace(output);
  skip.insert(copied.begin(), copied.end());
  link_all_but(output.calls, output.work, output.layout, std::move(skip));
}

std::optional<Error> fault_of(const Syscalls& calls, const WorkFolder& work, int threads) {
  try {
    const Checkpoint made = Checkpoint::open(calls, work.out(), threads);
    return std::nullopt;
  } catch (const Error& error) {
    const bool is_of_files =
        error.code() == ErrorCode::format || error.code() == ErrorCode::checkpoint;
    if (!is_of_files) throw;
    return error;
  }
}

}  // namespace

void OutputFolder::write_beside_tensors() const {
  const std::set<std::string> shards = shard_names(layout);
  // A resumed run may find links of the earlier one, which must not be written through.
  prune_tree(calls, work.out(), shards);
  std::vector<std::string> copied;
  if (!replaces_source(*this)) copied = side_files_of(calls, source);
  const auto config = changed_config(calls, source, changes);
  if (config && replaces_source(*this)) copied.emplace_back(kConfigName);
  std::erase_if(copied, [&](const std::string& name) { return shards.contains(name); });
  keep_files_of_destination(*this, copied);
  const auto write = [&](std::string_view name, const std::string& text) {
    write_whole_file(calls, join_path(work.out(), name), text);
  };
  for (const std::string& name : copied) {
    if (config && name == kConfigName) {
      write(name, *config);
    } else {
      copy_file(calls, join_path(source.folder(), name), join_path(work.out(), name));
    }
  }
  if (checksums) write(kChecksumsName, *checksums);
  if (manifest) write(kManifestName, *manifest);
  write(kProvenanceName, format_provenance(provenance));
  if (layout.index()) write(layout.index()->first, layout.index()->second);
}

void keep_other_files(const Syscalls& calls, const WorkFolder& work, const ShardLayout& layout,
                      const std::vector<std::string>& written) {
  if (!work.destination_exists()) return;
  std::set<std::string> skip = replaced_files(calls, work.destination(), stands_by_itself(layout));
  skip.insert(written.begin(), written.end());
  link_all_but(calls, work, layout, std::move(skip));
}

void refuse_if_unreadable(const Syscalls& calls, const WorkFolder& work, int threads) {
  const std::optional<Error> fault = fault_of(calls, work, threads);
  if (!fault) return;
  throw Error(
      ErrorCode::checkpoint,
      fmt::format("{}: these files would not read back: {}", work.destination(), fault->what()),
      "split by size with --max-shard-size, or like a sound checkpoint with "
      "--layout-from",
      fault->findings());
}

std::optional<Finding> OutputFolder::not_copied() const {
  if (replaces_source(*this)) return std::nullopt;
  return not_copied_from(calls, source);
}

}  // namespace weightloom
