#include "weightloom/safetensors/shard_layout.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "weightloom/base/checked.h"
#include "weightloom/base/quote.h"
#include "weightloom/safetensors/name_table.h"

namespace weightloom {
namespace {

constexpr std::string_view kWholeName = "model.safetensors";
constexpr std::string_view kIndexName = "model.safetensors.index.json";
constexpr size_t kNamesShown = 5;

/// Which tensors (positions) go into one file.
using Group = std::vector<size_t>;

Error refusal(std::string_view what, const std::vector<std::string>& names) {
  auto shown = std::span(names).first(std::min(names.size(), kNamesShown));
  std::vector<Finding> findings;
  for (const auto& name : names) {
    findings.push_back(
        {Severity::error, "no_place", name, "", fmt::format("tensor {}: {}", quote(name), what)});
  }
  std::vector<std::string> texts;
  for (const auto& name : shown) texts.push_back(quote(name));
  return Error(ErrorCode::usage,
               fmt::format("{} tensors {}: {}{}", names.size(), what, fmt::join(texts, ", "),
                           names.size() > shown.size() ? ", …" : ""),
               "", std::move(findings));
}

int64_t size_of(const TensorSpec& tensor) {
  auto size = checked_bytes(tensor.dtype, tensor.shape);
  if (size) return *size;
  throw Error(ErrorCode::usage,
              fmt::format("tensor {}: {} {} does not fill whole bytes, or has more than 2^63",
                          quote(tensor.name), to_string(tensor.dtype), to_string(tensor.shape)));
}

/// Sums of bytes and of elements must stay below 2^63 whatever the split.
void check_total(std::span<const TensorSpec> tensors) {
  int64_t total_bits = 0;
  for (const auto& tensor : tensors) {
    auto size_bits = checked_mul(size_of(tensor), 8);
    auto next = size_bits ? checked_add(total_bits, *size_bits) : std::nullopt;
    if (!next) {
      throw Error(ErrorCode::usage, fmt::format("tensor {}: with it the tensors exceed 2^63 bits",
                                                quote(tensor.name)));
    }
    total_bits = *next;
  }
}

/// Every position.
Group all_of(std::span<const TensorSpec> tensors) {
  Group all(tensors.size());
  std::iota(all.begin(), all.end(), size_t{0});
  return all;
}

/// Positions of some tensors' names, each checked to be there once.
class SpecTable {
 public:
  explicit SpecTable(std::span<const TensorSpec> tensors) : SpecTable(tensors, all_of(tensors)) {
    check_total(tensors);
  }

  /// Of a group of tensors whose total has been checked.
  SpecTable(std::span<const TensorSpec> tensors, Group group)
      : tensors_(tensors), group_(std::move(group)), table_(group_.size()) {
    auto names = [this](int32_t i) { return name_at(i); };
    std::vector<std::string> twice;
    for (size_t i = 0; i < group_.size(); ++i) {
      const std::string& name = tensors_[group_[i]].name;
      if (table_.insert(name, static_cast<int32_t>(i), names)) twice.push_back(name);
    }
    if (!twice.empty()) throw refusal("are given twice", twice);
  }

  std::optional<size_t> find(std::string_view name) const {
    auto at = table_.find(name, [this](int32_t i) { return name_at(i); });
    return at ? std::optional(group_[static_cast<size_t>(*at)]) : std::nullopt;
  }

 private:
  std::string_view name_at(int32_t i) const {
    return tensors_[group_[static_cast<size_t>(i)]].name;
  }

  std::span<const TensorSpec> tensors_;
  Group group_;
  NameTable table_;
};

std::vector<size_t> in_name_order(std::span<const TensorSpec> tensors) {
  Group order = all_of(tensors);
  std::sort(order.begin(), order.end(),
            [&](size_t a, size_t b) { return tensors[a].name < tensors[b].name; });
  return order;
}

/// Fills one group after another; a tensor that does not fit begins the next.
std::vector<Group> fill_greedily(std::span<const TensorSpec> tensors, int64_t max_bytes) {
  std::vector<Group> groups(1);
  int64_t used = 0;
  for (size_t i : in_name_order(tensors)) {
    int64_t size = size_of(tensors[i]);
    auto total = checked_add(used, size);
    bool fits = total && *total <= max_bytes;
    if (!fits && !groups.back().empty()) {
      groups.emplace_back();
      used = 0;
    }
    groups.back().push_back(i);
    used += size;
  }
  return groups;
}

ShardFile make_file(std::span<const TensorSpec> tensors, const Group& group, std::string name,
                    const Metadata& metadata) {
  std::vector<TensorSpec> chosen;
  chosen.reserve(group.size());
  for (size_t i : group) chosen.push_back(tensors[i]);
  return {std::move(name), Header::lay_out(std::move(chosen), metadata)};
}

std::vector<TensorPlace> find_places(const SpecTable& table, size_t count,
                                     std::span<const ShardFile> files) {
  std::vector<TensorPlace> places(count);
  for (size_t f = 0; f < files.size(); ++f) {
    const Header& header = files[f].header;
    for (const auto& tensor : header.tensors()) {
      places[*table.find(tensor.name)] = {static_cast<int32_t>(f),
                                          header.data_begin_bytes() + tensor.begin_bytes};
    }
  }
  return places;
}

std::pair<std::string, std::string> make_index(std::span<const ShardFile> files) {
  Index index;
  int64_t parameters = 0;
  int64_t bytes = 0;
  for (const auto& file : files) {
    bytes += file.header.data_bytes();
    for (const auto& tensor : file.header.tensors()) {
      parameters += elements(tensor.shape);
      index.weight_map.emplace_back(tensor.name, file.name);
    }
  }
  index.total_parameters = parameters;
  index.total_size = bytes;
  return {std::string(kIndexName), format_index(index)};
}

/// True if `tensors` are those of `source` under `names`, in any order.
bool are_tensors_of(const SpecTable& table, std::span<const TensorSpec> tensors,
                    const Checkpoint& source, std::span<const std::string> names) {
  if (tensors.size() != source.tensors().size() || names.size() != tensors.size()) return false;
  for (size_t i = 0; i < names.size(); ++i) {
    const StoredTensor& stored = source.tensors()[i];
    const auto at = table.find(names[i]);
    if (!at || tensors[*at].dtype != stored.dtype || tensors[*at].shape != stored.shape) {
      return false;
    }
  }
  return true;
}

/// File `number` of `source` under new names; see ShardLayout::like_source.
ShardFile like_file(const Checkpoint& source, size_t number, std::span<const std::string> names) {
  const CheckpointFile& file = source.files()[number];
  std::string name = source.is_single_file() ? std::string(kWholeName) : file.name;
  std::vector<TensorSpec> taken;
  std::vector<std::string> new_names;
  bool renamed = false;
  for (const HeaderTensor& tensor : file.header.tensors()) {
    const StoredTensor* stored = source.find(tensor.name);
    if (stored == nullptr || stored->file != static_cast<int32_t>(number)) continue;
    const std::string& new_name = names[static_cast<size_t>(stored - source.tensors().data())];
    renamed = renamed || new_name != tensor.name;
    taken.push_back({new_name, tensor.dtype, tensor.shape});
    new_names.push_back(new_name);
  }
  if (taken.size() != file.header.tensors().size()) {
    return {std::move(name), Header::lay_out(std::move(taken), file.header.metadata())};
  }
  if (!renamed) return {std::move(name), file.header};
  return {std::move(name), file.header.with_names(std::move(new_names), kSharedBlockBytes)};
}

/// The files' tensors must be `tensors`, each once and with equal dtype and shape.
void check_same_tensors(const SpecTable& table, std::span<const TensorSpec> tensors,
                        std::span<const ShardFile> files) {
  std::vector<int> seen(tensors.size());
  std::vector<std::string> wrong;
  for (const auto& file : files) {
    for (const auto& found : file.header.tensors()) {
      auto at = table.find(found.name);
      bool agrees = at && tensors[*at].dtype == found.dtype && tensors[*at].shape == found.shape;
      if (!agrees || seen[*at]++ > 0) wrong.push_back(found.name);
    }
  }
  for (size_t i = 0; i < tensors.size(); ++i) {
    if (seen[i] == 0) wrong.push_back(tensors[i].name);
  }
  std::sort(wrong.begin(), wrong.end());
  wrong.erase(std::unique(wrong.begin(), wrong.end()), wrong.end());
  if (!wrong.empty()) throw refusal("do not stand once and alike in the given headers", wrong);
}

}  // namespace

ShardLayout ShardLayout::by_size(std::span<const TensorSpec> tensors, int64_t max_shard_bytes,
                                 const Metadata& metadata) {
  const SpecTable table(tensors);
  auto groups = fill_greedily(tensors, max_shard_bytes);
  ShardLayout layout;
  for (size_t i = 0; i < groups.size(); ++i) {
    auto name = groups.size() == 1
                    ? std::string(kWholeName)
                    : fmt::format("model-{:05d}-of-{:05d}.safetensors", i + 1, groups.size());
    layout.files_.push_back(make_file(tensors, groups[i], std::move(name), metadata));
  }
  layout.places_ = find_places(table, tensors.size(), layout.files_);
  if (groups.size() > 1) layout.index_ = make_index(layout.files_);
  return layout;
}

ShardLayout ShardLayout::one_file(std::span<const TensorSpec> tensors, std::string name,
                                  const Metadata& metadata) {
  const SpecTable table(tensors);
  Group all(tensors.size());
  std::iota(all.begin(), all.end(), size_t{0});
  ShardLayout layout;
  layout.files_.push_back(make_file(tensors, all, std::move(name), metadata));
  layout.places_ = find_places(table, tensors.size(), layout.files_);
  return layout;
}

ShardLayout ShardLayout::by_file(std::span<const TensorSpec> tensors,
                                 const std::vector<FileContent>& files) {
  check_total(tensors);
  ShardLayout layout;
  layout.places_.assign(tensors.size(), {-1, 0});
  for (const FileContent& file : files) {
    const SpecTable table(tensors, file.tensors);
    ShardFile made = make_file(tensors, file.tensors, file.name, file.metadata);
    const auto number = static_cast<int32_t>(layout.files_.size());
    for (const auto& tensor : made.header.tensors()) {
      TensorPlace& place = layout.places_[*table.find(tensor.name)];
      if (place.file >= 0) throw refusal("are given to two files", {tensor.name});
      place = {number, made.header.data_begin_bytes() + tensor.begin_bytes};
    }
    layout.files_.push_back(std::move(made));
  }
  for (size_t i = 0; i < tensors.size(); ++i) {
    if (layout.places_[i].file < 0) throw refusal("are given to no file", {tensors[i].name});
  }
  return layout;
}

ShardLayout ShardLayout::like_index(std::span<const TensorSpec> tensors, const Index& like,
                                    const Metadata& metadata) {
  const SpecTable table(tensors);
  std::map<std::string, Group> groups;
  std::vector<uint8_t> has_place(tensors.size());
  for (const auto& [name, shard] : like.weight_map) {
    auto at = table.find(name);
    if (!at || std::exchange(has_place[*at], uint8_t{1}) != 0) continue;
    groups[shard].push_back(*at);
  }
  std::vector<std::string> homeless;
  for (size_t i = 0; i < tensors.size(); ++i) {
    if (has_place[i] == 0) homeless.push_back(tensors[i].name);
  }
  if (!homeless.empty()) throw refusal("are not in the index to follow", homeless);
  if (groups.empty()) return one_file(tensors, std::string(kWholeName), metadata);
  ShardLayout layout;
  for (const auto& [shard, group] : groups) {
    layout.files_.push_back(make_file(tensors, group, shard, metadata));
  }
  layout.places_ = find_places(table, tensors.size(), layout.files_);
  bool is_whole = layout.files_.size() == 1 && layout.files_.front().name == kWholeName;
  if (!is_whole) layout.index_ = make_index(layout.files_);
  return layout;
}

ShardLayout ShardLayout::verbatim(std::span<const TensorSpec> tensors, std::vector<ShardFile> files,
                                  std::optional<std::pair<std::string, std::string>> index) {
  const SpecTable table(tensors);
  check_same_tensors(table, tensors, files);
  ShardLayout layout;
  layout.places_ = find_places(table, tensors.size(), files);
  layout.files_ = std::move(files);
  layout.index_ = std::move(index);
  return layout;
}

std::optional<ShardLayout> ShardLayout::like_source(std::span<const TensorSpec> tensors,
                                                    const Checkpoint& source,
                                                    std::span<const std::string> names) {
  const SpecTable table(tensors);
  if (!are_tensors_of(table, tensors, source, names)) return std::nullopt;
  ShardLayout layout;
  bool renamed = false;
  for (size_t i = 0; i < names.size(); ++i) {
    renamed = renamed || names[i] != source.tensors()[i].name;
  }
  for (size_t f = 0; f < source.files().size(); ++f) {
    layout.files_.push_back(like_file(source, f, names));
  }
  layout.places_ = find_places(table, tensors.size(), layout.files_);
  layout.index_ = source.index();
  if (layout.index_ && renamed) layout.index_->second = make_index(layout.files_).second;
  return layout;
}

int64_t ShardLayout::total_file_bytes() const noexcept {
  int64_t total = 0;
  for (const auto& file : files_) total += file.header.file_bytes();
  return total;
}

}  // namespace weightloom
