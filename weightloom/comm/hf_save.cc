#include "weightloom/comm/hf_save.h"

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include <fmt/format.h>

#include "weightloom/base/file.h"
#include "weightloom/base/hash.h"
#include "weightloom/base/quote.h"
#include "weightloom/comm/agreement.h"
#include "weightloom/comm/shared_folder_internal.h"
#include "weightloom/execute/output_folder_internal.h"

namespace weightloom {
namespace {

/// A key: where it comes from, and who writes it.
struct Written {
  HFTensorSource tensor;
  int64_t bytes = 0;
  int64_t writer = 0;
};

void refuse_parts(const HFSavePlan& plan) {
  const bool takes_part = plan.fused_key_range.size() != std::ssize(plan.hf_keys);
  if (!plan.preserves_shards && !takes_part && !plan.key_layouts.empty()) return;
  throw Error(ErrorCode::usage,
              fmt::format("tensor {}: its plan gives a part of its keys on each rank, and a save "
                          "writes all of them",
                          quote(plan.name)),
              "plan it without preserve_process_group, gather_process_group and "
              "target_fused_key_partition");
}

/// The keys of all tensors, and their writers: the same on all ranks.
class Division {
 public:
  Division(int64_t world_size, int64_t max_save_rank)
      : world_size_(world_size),
        max_save_rank_(max_save_rank),
        bytes_of_(static_cast<size_t>(std::min(world_size, std::max<int64_t>(max_save_rank, 1)))) {}

  std::vector<Written> keys_of(const HFSaveItem& item) {
    refuse_parts(item.plan);
    std::vector<Written> keys;
    for (HFTensorSource& tensor : hf_tensors_of(item)) {
      if (!names_.insert(tensor.name).second) {
        throw Error(ErrorCode::usage, fmt::format("key {} comes twice", quote(tensor.name)));
      }
      const int64_t bytes = *checked_bytes(tensor.dtype, tensor.layout.shape());
      keys.push_back({std::move(tensor), bytes, 0});
    }
    assign(keys);
    return keys;
  }

 private:
  void assign(std::vector<Written>& keys) {
    const int64_t count = std::ssize(keys);
    if (count == 1) keys[0].writer = std::ranges::min_element(bytes_of_) - bytes_of_.begin();
    for (int64_t rank = 0; count > 1 && rank < world_size_; ++rank) {
      const Interval range = save_key_range(count, rank, world_size_, max_save_rank_);
      for (int64_t i = range.begin; i < range.end; ++i) keys[static_cast<size_t>(i)].writer = rank;
    }
    for (const Written& key : keys) bytes_of_[static_cast<size_t>(key.writer)] += key.bytes;
  }

  int64_t world_size_;
  int64_t max_save_rank_;
  std::vector<int64_t> bytes_of_;  // by writer
  std::set<std::string> names_;
};

/// Number of the file of each key, from 0: writer by writer, each file of at most so many bytes.
std::vector<size_t> files_of(const std::vector<const Written*>& keys, int64_t max_shard_bytes) {
  std::vector<size_t> order(keys.size());
  for (size_t i = 0; i < order.size(); ++i) order[i] = i;
  std::ranges::sort(order, {}, [&](size_t i) { return std::pair(keys[i]->writer, i); });
  std::vector<size_t> files(keys.size());
  size_t file = 0;
  int64_t bytes = 0;
  const Written* before = nullptr;
  for (const size_t i : order) {
    const bool is_full = bytes > 0 && bytes + keys[i]->bytes > max_shard_bytes;
    if (before != nullptr && (before->writer != keys[i]->writer || is_full)) {
      ++file;
      bytes = 0;
    }
    bytes += keys[i]->bytes;
    files[i] = file;
    before = keys[i];
  }
  return files;
}

class GatheringSave {
 public:
  GatheringSave(GroupCache& groups, std::span<const HFSaveItem> items, const HFSaveOptions& options,
                const Syscalls& calls)
      : groups_(groups), options_(options), calls_(calls) {
    run_agreed(groups.all(), [&] { plan(items); });
    require_equal(groups.all(), digest(), "the list of keys");
  }

  HFSaveReport save(const std::string& destination) {
    const ShardLayout layout = layout_of_files();
    HFSaveReport report;
    for (const ShardFile& file : layout.files()) report.files.push_back(file.name);
    for (const auto& keys : keys_) report.targets += std::ssize(keys);
    report.target_bytes = total_bytes();
    const SharedContent content{layout, report.target_bytes, options_.overwrite,
                                [&](SharedFiles& files) { write(layout, files); },
                                [&](const WorkFolder& work) { write_beside(layout, work); }};
    SharedOutcome outcome = build_shared_folder(groups_.all(), calls_, destination, content);
    report.bytes_written = outcome.bytes_written;
    if (outcome.left_over) report.findings.push_back(*std::move(outcome.left_over));
    return report;
  }

 private:
  void plan(std::span<const HFSaveItem> items) {
    Division division(groups_.all().size(), options_.max_save_rank);
    for (const HFSaveItem& item : items) {
      parts_.push_back(part_of_item(item, groups_));
      keys_.push_back(division.keys_of(item));
    }
  }

  std::vector<const Written*> all_keys() const {
    std::vector<const Written*> all;
    for (const auto& keys : keys_) {
      for (const Written& key : keys) all.push_back(&key);
    }
    return all;
  }

  int64_t total_bytes() const {
    int64_t bytes = 0;
    for (const Written* key : all_keys()) bytes += key->bytes;
    return bytes;
  }

  uint64_t digest() const {
    std::string text;
    for (const Written* key : all_keys()) {
      text += fmt::format("{}\n{}\n{}\n{}\n", key->tensor.name, to_string(key->tensor.dtype),
                          to_string(key->tensor.layout.shape()), key->writer);
    }
    return fnv1a64(text);
  }

  ShardLayout layout_of_files() const {
    const std::vector<const Written*> keys = all_keys();
    const std::vector<size_t> files = files_of(keys, options_.max_shard_bytes);
    const size_t count = files.empty() ? 1 : std::ranges::max(files) + 1;
    std::vector<TensorSpec> specs;
    Index index;
    for (size_t i = 0; i < keys.size(); ++i) {
      const HFTensorSource& tensor = keys[i]->tensor;
      specs.push_back({tensor.name, tensor.dtype, tensor.layout.shape()});
      index.weight_map.emplace_back(
          tensor.name, count == 1
                           ? std::string("model.safetensors")
                           : fmt::format("model-{:05}-of-{:05}.safetensors", files[i] + 1, count));
    }
    return ShardLayout::like_index(specs, index, options_.metadata);
  }

  void write(const ShardLayout& layout, SharedFiles& files) {
    std::vector<size_t> first_key;  // of each part, among all
    size_t count = 0;
    for (const auto& keys : keys_) {
      first_key.push_back(count);
      count += keys.size();
    }
    const auto write_bucket = [&](size_t first, std::span<const UnshardedTensor> tensors) {
      run_agreed(groups_.all(), [&] {
        for (size_t i = 0; i < tensors.size(); ++i) {
          write_keys(keys_[first + i], layout.places().subspan(first_key[first + i]),
                     tensors[i].bytes, files);
        }
      });
    };
    unshard_in_buckets(groups_, parts_, options_.bucket_bytes, write_bucket);
  }

  void write_keys(const std::vector<Written>& keys, std::span<const TensorPlace> places,
                  std::span<const std::byte> unsharded, SharedFiles& files) {
    for (size_t i = 0; i < keys.size(); ++i) {
      if (keys[i].writer == groups_.all().rank()) write_key(keys[i], places[i], unsharded, files);
    }
  }

  void write_key(const Written& key, const TensorPlace& place, std::span<const std::byte> unsharded,
                 SharedFiles& files) {
    int64_t at = place.offset_bytes;
    const Shape& shape = key.tensor.layout.shape();
    for (const Interval& rows : slices_of(key.tensor.dtype, shape, options_.slice_bytes)) {
      slice_.resize(static_cast<size_t>(bytes_of_rows(key, rows)));
      copy_rows(key.tensor, rows, unsharded, slice_);
      files.write(place.file, at, slice_);
      at += std::ssize(slice_);
    }
  }

  static int64_t bytes_of_rows(const Written& key, const Interval& rows) {
    Shape shape = key.tensor.layout.shape();
    if (!shape.empty()) shape.front() = rows.size();
    return *checked_bytes(key.tensor.dtype, shape);
  }

  void write_beside(const ShardLayout& layout, const WorkFolder& work) const {
    std::vector<SideText> texts = options_.texts;
    if (layout.index()) texts.push_back(*layout.index());
    std::vector<std::string> names;
    for (const auto& [name, text] : texts) names.push_back(name);
    keep_other_files(calls_, work, layout, names);
    for (const auto& [name, text] : texts) {
      write_whole_file(calls_, join_path(work.out(), name), text);
    }
    refuse_if_unreadable(calls_, work, 1);
  }

  GroupCache& groups_;
  const HFSaveOptions& options_;
  const Syscalls& calls_;
  std::vector<ShardedPart> parts_;
  std::vector<std::vector<Written>> keys_;  // by part
  std::vector<std::byte> slice_;
};

}  // namespace

HFSaveReport save_hf_tensors(GroupCache& groups, std::span<const HFSaveItem> items,
                             const std::string& destination, const HFSaveOptions& options,
                             const Syscalls& calls) {
  return GatheringSave(groups, items, options, calls).save(destination);
}

}  // namespace weightloom
