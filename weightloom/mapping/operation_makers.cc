#include "weightloom/mapping/operation_makers.h"

#include <limits>
#include <optional>

#include <fmt/format.h>

#include "weightloom/base/error.h"
#include "weightloom/mapping/operation_experts_internal.h"
#include "weightloom/mapping/operation_makers_internal.h"

namespace weightloom {
namespace {

using Parameters = OperationParameters;

constexpr const char* kShards = "num_shards_attribute";

std::optional<ConfigNumber> shards(const Parameters& p) {
  return p.has(kShards) ? std::optional(p.number(kShards)) : std::nullopt;
}

OperationPtr read_chunk(const Parameters& p) { return make_chunk(p.dim("dim"), shards(p)); }

OperationPtr read_split(const Parameters& p) {
  return make_split(p.dim("dim"), p.numbers("sizes"));
}

OperationPtr read_concatenate(const Parameters& p) {
  return make_concatenate(p.dim("dim"), p.numbers("sizes"), shards(p));
}

OperationPtr read_interleave(const Parameters& p) {
  return make_interleave(p.dim("dim"), p.flag("inverse", false));
}

OperationPtr read_merge(const Parameters& p) {
  return make_merge_modulelist(p.dim("dim"), p.numbers("count"));
}

OperationPtr read_split_list(const Parameters& p) {
  return make_split_modulelist(p.dim("dim"), p.numbers("count"));
}

OperationPtr read_transpose(const Parameters& p) {
  if (!p.has("check_dims")) return make_transpose(p.dim("dim0"), p.dim("dim1"));
  return make_checked_transpose(p.dim("dim0"), p.dim("dim1"), p.numbers("check_dims"),
                                p.flag("backwards", false));
}

OperationPtr read_unflatten(const Parameters& p) {
  return make_unflatten(p.dim("dim"), p.numbers("sizes"));
}

OperationPtr read_flatten(const Parameters& p) {
  return make_flatten(p.dim("dim"), p.numbers("sizes"));
}

OperationPtr read_rope(const Parameters& p) {
  RopeParameters rope;
  rope.num_heads_of = p.named_numbers("num_heads");
  if (p.has("num_heads") && rope.num_heads_of.empty()) rope.num_heads = p.number("num_heads");
  if (p.has("subconfig_key")) rope.subconfig_key = p.text("subconfig_key");
  rope.permute_layer_names = p.texts("permute_layer_names");
  rope.inverse = p.flag("inverse", false);
  return make_permute_for_rope(std::move(rope));
}

OperationPtr read_fuse_experts(const Parameters& p) {
  return internal::make_fuse_experts(p.dim("stack_dim"), p.dim("concat_dim"));
}

OperationPtr read_split_experts(const Parameters& p) {
  return internal::make_split_experts(p.dim("stack_dim"), p.dim("concat_dim"));
}

OperationMakers make_built_in() {
  OperationMakers makers;
  makers.add("Chunk", {{"dim", kShards}, read_chunk});
  makers.add("Split", {{"dim", "sizes"}, read_split});
  makers.add("Concatenate", {{"dim", "sizes", kShards}, read_concatenate});
  makers.add("Interleave", {{"dim", "inverse"}, read_interleave});
  makers.add("MergeModulelist", {{"dim", "count"}, read_merge});
  makers.add("SplitModulelist", {{"dim", "count"}, read_split_list});
  makers.add("Transpose", {{"dim0", "dim1", "check_dims", "backwards"}, read_transpose});
  makers.add("Unflatten", {{"dim", "sizes"}, read_unflatten});
  makers.add("Flatten", {{"dim", "sizes"}, read_flatten});
  makers.add("PermuteForRope",
             {{"num_heads", "subconfig_key", "permute_layer_names", "inverse"}, read_rope});
  makers.add("ErnieFuseAndSplitTextVisionExperts",
             {{"stack_dim", "concat_dim"}, read_fuse_experts});
  makers.add("ErnieSplitAndDecoupleTextVisionExperts",
             {{"stack_dim", "concat_dim"}, read_split_experts});
  return makers;
}

}  // namespace

namespace internal {

ConfigNumber read_number(const nlohmann::json& value, const std::string& where) {
  if (const auto number = to_integer(value)) return ConfigNumber(*number);
  try {
    if (value.is_string())
      return ConfigNumber(std::string_view(value.get_ref<const std::string&>()));
  } catch (const Error& error) {
    throw Error(error.code(), fmt::format("{}: {}", where, error.what()));
  }
  throw Error(ErrorCode::mapping,
              fmt::format("{}: must be a whole number or a key of config.json", where));
}

}  // namespace internal

bool OperationParameters::has(const std::string& key) const { return json_.object.has(key); }

int64_t OperationParameters::integer(const std::string& key) const {
  return json_.object.integer(key);
}

int OperationParameters::dim(const std::string& key) const {
  const int64_t value = integer(key);
  if (value < 0 || value > std::numeric_limits<int>::max()) {
    refuse(fmt::format("'{}' must be 0 or more, not {}", key, value));
  }
  return static_cast<int>(value);
}

bool OperationParameters::flag(const std::string& key, bool otherwise) const {
  return json_.object.flag(key, otherwise);
}

std::string OperationParameters::text(const std::string& key) const {
  return json_.object.text(key);
}

std::vector<std::string> OperationParameters::texts(const std::string& key) const {
  return has(key) ? json_.object.texts(key) : std::vector<std::string>{};
}

ConfigNumber OperationParameters::number(const std::string& key) const {
  return internal::read_number(json_.object.at(key),
                               fmt::format("{}: '{}'", json_.object.where(), key));
}

std::vector<ConfigNumber> OperationParameters::numbers(const std::string& key) const {
  std::vector<ConfigNumber> numbers;
  if (!has(key)) return numbers;
  for (const auto& item : json_.object.list(key)) {
    numbers.push_back(internal::read_number(
        item, fmt::format("{}: '{}' [{}]", json_.object.where(), key, numbers.size())));
  }
  return numbers;
}

std::vector<std::pair<std::string, ConfigNumber>> OperationParameters::named_numbers(
    const std::string& key) const {
  std::vector<std::pair<std::string, ConfigNumber>> numbers;
  if (!has(key) || !json_.object.at(key).is_object()) return numbers;
  for (const auto& [name, value] : json_.object.at(key).items()) {
    numbers.emplace_back(
        name, internal::read_number(value,
                                    fmt::format("{}: '{}' '{}'", json_.object.where(), key, name)));
  }
  return numbers;
}

void OperationParameters::refuse(const std::string& why) const { json_.object.refuse(why); }

const OperationMakers& OperationMakers::built_in() {
  static const OperationMakers makers = make_built_in();
  return makers;
}

void OperationMakers::add(std::string name, OperationMaker maker) {
  if (find(name) != nullptr) {
    throw Error(ErrorCode::mapping, fmt::format("there is an operation '{}' already", name),
                "give yours another name");
  }
  makers_.emplace(std::move(name), std::move(maker));
}

const OperationMaker* OperationMakers::find(std::string_view name) const noexcept {
  const auto found = makers_.find(name);
  return found == makers_.end() ? nullptr : &found->second;
}

std::vector<std::string> OperationMakers::names() const {
  std::vector<std::string> names;
  for (const auto& [name, maker] : makers_) names.push_back(name);
  return names;
}

}  // namespace weightloom
