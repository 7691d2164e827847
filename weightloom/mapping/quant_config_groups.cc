#include <charconv>
#include <optional>
#include <string>
#include <utility>

#include <fmt/format.h>

#include "weightloom/base/quote.h"
#include "weightloom/mapping/quant_config_groups_internal.h"

namespace weightloom {
namespace {

std::optional<int64_t> number_of(std::string_view text) {
  int64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return number;
}

/// [128, 128], or "128x128".
std::optional<QuantBlock> block_of(QuantConfigReader& weights) {
  std::optional<QuantBlock> block;
  if (const auto sizes = weights.integers("block_structure"); sizes && sizes->size() == 2) {
    block = QuantBlock{(*sizes)[0], (*sizes)[1]};
  }
  if (!block || block->rows <= 0 || block->cols <= 0) return std::nullopt;
  return block;
}

std::optional<QuantBlock> block_of_text(std::string_view text) {
  const auto cross = text.find('x');
  if (cross == text.npos) return std::nullopt;
  const auto rows = number_of(text.substr(0, cross));
  const auto cols = number_of(text.substr(cross + 1));
  if (!rows || !cols || *rows <= 0 || *cols <= 0) return std::nullopt;
  return QuantBlock{*rows, *cols};
}

/// What the strategy is where none is written.
std::string_view usual_strategy(std::optional<int64_t> group_size) {
  if (!group_size) return "tensor";
  return *group_size == -1 ? "channel" : "group";
}

void read_group_size(QuantConfigReader& weights, std::optional<int64_t> size, WeightArgs& args) {
  args.strategy = QuantStrategy::group;
  args.group_size = size.value_or(0);
  if (args.group_size > 0) return;
  weights.refuse("group_size", "is not a positive number, which the strategy needs");
}

void read_block(QuantConfigReader& weights, WeightArgs& args) {
  args.strategy = QuantStrategy::block;
  const auto block = weights.is_text("block_structure")
                         ? block_of_text(weights.text("block_structure").value_or(""))
                         : block_of(weights);
  args.block = block.value_or(QuantBlock{});
  if (!block) weights.refuse("block_structure", "is not two positive numbers");
}

void read_strategy(QuantConfigReader& weights, WeightArgs& args) {
  const auto size = weights.integer("group_size");
  const std::string name = weights.text("strategy").value_or(std::string(usual_strategy(size)));
  args.has_global_scale = name == "tensor_group";
  if (name == "group" || name == "tensor_group") return read_group_size(weights, size, args);
  if (name == "block") return read_block(weights, args);
  args.strategy = name == "channel" ? QuantStrategy::channel : QuantStrategy::tensor;
  if (name == "channel" || name == "tensor") return;
  weights.refuse(
      "strategy",
      fmt::format("is {}; known are tensor, channel, group, tensor_group and block", quote(name)));
}

WeightArgs read_weights(QuantConfigReader& weights) {
  WeightArgs args;
  const std::string type = weights.text("type").value_or("int");
  args.is_float = type == "float";
  args.bits = weights.integer("num_bits").value_or(8);
  args.symmetric = weights.flag("symmetric", true);
  read_strategy(weights, args);
  if (type != "int" && type != "float") {
    weights.refuse("type", fmt::format("is {}; known are 'int' and 'float'", quote(type)));
  }
  if (args.bits < 1 || args.bits > 8) weights.refuse("num_bits", "is not between 1 and 8");
  return args;
}

std::string format_of(QuantConfigReader& object) { return object.text("format").value_or(""); }

bool is_format_known(std::string_view format) {
  constexpr std::string_view kKnown[] = {"",
                                         "pack-quantized",
                                         "int-quantized",
                                         "float-quantized",
                                         "mixed-precision",
                                         "naive-quantized",
                                         "nvfp4-pack-quantized",
                                         "mxfp4-pack-quantized",
                                         "mxfp8-quantized"};
  for (const auto known : kKnown) {
    if (format == known) return true;
  }
  return false;
}

void check_format(QuantConfigReader& object, const std::string& format) {
  if (is_format_known(format)) return;
  object.refuse("format", fmt::format("is {}; known are pack-quantized, int-quantized, "
                                      "float-quantized, naive-quantized, nvfp4-pack-quantized, "
                                      "mxfp4-pack-quantized and mxfp8-quantized",
                                      quote(format)));
}

std::optional<QuantGroup> read_group(QuantConfigReader& group, const std::string& name,
                                     const std::string& usual_format) {
  if (!group.has("weights")) return std::nullopt;
  auto weights = group.object("weights");
  if (!weights) return std::nullopt;
  QuantGroup result;
  result.name = name;
  result.targets = group.texts("targets").value_or(std::vector<std::string>{});
  if (result.targets.empty()) group.refuse("targets", "names no modules");
  result.weights = read_weights(*weights);
  const std::string format = format_of(group);
  check_format(group, format);
  result.weights.format = format.empty() ? usual_format : format;
  if (result.weights.format == "mixed-precision") result.weights.format.clear();
  return result;
}

void refuse_sparsity(QuantConfigReader& config) {
  auto sparsity = config.object("sparsity_config");
  if (!sparsity || sparsity->keys().empty()) return;
  const std::string format = sparsity->text("format").value_or("dense");
  if (format == "dense") return;
  sparsity->refuse("format", fmt::format("is {}; sparse weights are not known", quote(format)));
}

}  // namespace

std::vector<QuantGroup> read_quant_groups(QuantConfigReader& config) {
  std::vector<QuantGroup> groups;
  refuse_sparsity(config);
  const std::string format = format_of(config);
  check_format(config, format);
  auto object = config.object("config_groups");
  if (!object) {
    if (!config.has("config_groups")) config.refuse("config_groups", "is not there");
    return groups;
  }
  for (const std::string& name : object->keys()) {
    auto group = object->object(name);
    if (!group) continue;
    if (auto read = read_group(*group, name, format)) groups.push_back(std::move(*read));
  }
  return groups;
}

}  // namespace weightloom
