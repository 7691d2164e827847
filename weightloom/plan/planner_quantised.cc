// What a conversion decodes before its rules see a name, and what it encodes after them.
#include <algorithm>
#include <array>
#include <iterator>
#include <map>
#include <set>
#include <string_view>
#include <utility>

#include "weightloom/base/file.h"
#include "weightloom/layout/compose.h"
#include "weightloom/layout/operations.h"
#include "weightloom/plan/interpret.h"
#include "weightloom/plan/node_boxes_internal.h"
#include "weightloom/plan/planner_internal.h"

namespace weightloom {
namespace {

/// A layout over one source, over another one.
Layout over(const Layout& layout, SourceId source, const Shape& shape) {
  return compose(layout, std::array{identity(source, shape)});
}

/// The dtype that a config's "torch.bfloat16" or "bfloat16" means.
std::optional<DType> dtype_of_torch(std::string_view name) {
  if (name.starts_with("torch.")) name.remove_prefix(6);
  if (name == "bfloat16") return DType::BF16;
  if (name == "float16" || name == "half") return DType::F16;
  if (name == "float32" || name == "float") return DType::F32;
  if (name == "float64" || name == "double") return DType::F64;
  return std::nullopt;
}

/// A layout, and the only stored tensors that it takes from.
struct OwnSources {
  Layout layout;
  std::vector<ProgramSource> sources;
};

OwnSources own_sources(Layout layout, std::span<const StoredTensor> stored) {
  OwnSources own{Layout(), {}};
  const Shape shape = layout.shape();
  std::map<SourceId, SourceId> places;
  std::vector<Region> regions = std::move(layout).regions();
  for (Region& region : regions) {
    if (region.is_pad()) continue;
    const auto [place, is_new] =
        places.emplace(region.source, static_cast<SourceId>(own.sources.size()));
    if (is_new) own.sources.push_back(stored_source(stored[static_cast<size_t>(region.source)]));
    region.source = place->second;
  }
  own.layout = Layout::make(shape, std::move(regions));
  return own;
}

/// A source that a node computes.
ProgramSource computed_source(std::string name, DType dtype, Shape shape) {
  ProgramSource source{std::move(name), dtype, std::move(shape), -1};
  source.size_bytes = checked_bytes(source.dtype, source.shape).value_or(0);
  return source;
}

}  // namespace

/// Leaves that codes and scales stand for take the place of these.
void Planner::decode_leaves() {
  if (!selection_.dequantize) return;
  QuantisedTensors found = find_quantised(
      config(), leaves_, [this](size_t leaf) { return bytes_of_leaf(leaves_[leaf]); });
  std::ranges::move(found.findings, std::back_inserter(result_.findings));
  std::vector<NamedLayout> decoded;
  std::set<size_t> operands;
  for (const QuantisedTensor& tensor : found.tensors) {
    for (const QuantisedOperand& operand : tensor.operands) {
      if (!operand.is_made) operands.insert(operand.place);
    }
    decode(tensor, decoded);
  }
  std::vector<NamedLayout> left;
  for (size_t i = 0; i < leaves_.size(); ++i) {
    if (!found.consumed[i]) {
      left.push_back(std::move(leaves_[i]));
    } else if (!operands.contains(i)) {
      for (const Region& region : leaves_[i].layout.regions()) leave_out(region.source);
    }
  }
  std::ranges::move(decoded, std::back_inserter(left));
  std::ranges::sort(left, {}, &NamedLayout::name);
  leaves_ = std::move(left);
  result_.config.dequantised = true;
}

/// Of a small tensor, read now since its values declare something.
std::string Planner::bytes_of_leaf(const NamedLayout& leaf) const {
  Layout layout = source_.is_sharded() ? compose(leaf.layout, whole_layouts()) : leaf.layout;
  OwnSources own = own_sources(std::move(layout), source_.tensors());
  const Compiled compiled =
      compile(program_files(), std::move(own.sources), {{leaf.name, leaf.dtype, own.layout}});
  const std::vector<Bytes> made = interpret(compiled.program, [&](const ProgramSource& source) {
    const ProgramFile& file = compiled.program.files()[static_cast<size_t>(source.file)];
    Bytes bytes(static_cast<size_t>(source.size_bytes));
    File::open_read(calls_, file.path).read_at(std::span(bytes), source.offset_bytes);
    return bytes;
  });
  if (made.empty()) return {};
  return std::string(reinterpret_cast<const char*>(made.front().data()), made.front().size());
}

/// A node, and the leaf that it makes of a tensor unless that is only an operand of another.
void Planner::decode(const QuantisedTensor& tensor, std::vector<NamedLayout>& decoded) {
  NodeLayouts node{tensor.codec, false, tensor.coded_shape, {}};
  for (const QuantisedOperand& operand : tensor.operands) {
    if (operand.is_made) {
      const ProgramSource& made = computed_[operand.place];
      const auto id = static_cast<SourceId>(whole_.tensors.size() + operand.place);
      node.inputs.push_back(
          {made.name, made.dtype, reshape(identity(id, made.shape), operand.shape)});
    } else {
      const NamedLayout& leaf = leaves_[operand.place];
      node.inputs.push_back({leaf.name, leaf.dtype, reshape(leaf.layout, operand.shape)});
    }
  }
  nodes_.push_back(std::move(node));
  const std::string name = tensor.name.empty() ? nodes_.back().inputs.front().name : tensor.name;
  const SourceId id = add_computed(computed_source(name, DType::F32, tensor.coded_shape));
  if (tensor.name.empty()) return;
  decoded_.push_back(tensor.name);
  decoded.push_back({tensor.name, DType::F32, over(tensor.layout, id, tensor.coded_shape)});
}

/// A result of the last node.
SourceId Planner::add_computed(ProgramSource source) {
  source.node = static_cast<int32_t>(nodes_.size()) - 1;
  computed_.push_back(std::move(source));
  return static_cast<SourceId>(whole_.tensors.size() + computed_.size() - 1);
}

/// What has no elements takes from nothing: it is known by its name.
bool Planner::is_decoded(const NamedLayout& target) const {
  if (computed_.empty()) return false;
  if (target.layout.regions().empty()) return std::ranges::count(decoded_, target.name) > 0;
  const auto first = static_cast<SourceId>(whole_.tensors.size());
  return std::ranges::any_of(target.layout.regions(),
                             [first](const Region& region) { return region.source >= first; });
}

/// What config.json says that the model computes in; BF16 if nothing.
DType Planner::dtype_of_decoded() const {
  for (const char* key : {"dtype", "torch_dtype", "text_config.dtype", "text_config.torch_dtype"}) {
    const auto text = facts_.config.text_at(key);
    if (const auto dtype = text ? dtype_of_torch(*text) : std::nullopt) return *dtype;
  }
  return DType::BF16;
}

/// True if targets have the names that tensors had when they were decoded.
bool Planner::names_of_decoded_hold() const {
  if (!facts_.record || facts_.record->decoded.empty()) return false;
  return result_.to == Side::hub || (!converts() && facts_.record->layout != "runtime");
}

/// Of what was decoded, the config that said how it was quantised.
ModelConfig Planner::config_to_encode_by() const {
  const bool says_nothing = !facts_.config.has("quantization_config");
  if (!says_nothing || !facts_.record || facts_.record->decoded.empty()) return config();
  if (facts_.record->config_json.empty()) return config();
  return ModelConfig::parse(facts_.record->config_json, kProvenanceName);
}

/// Targets that are to be quantised become codes and scales.
void Planner::encode_targets_of(std::vector<NamedLayout>& targets) {
  if (!selection_.quantize) return;
  std::vector<TargetTensor> tensors;
  for (const NamedLayout& target : targets) {
    tensors.push_back({target.name, target.dtype, target.layout.shape()});
  }
  EncodeRules rules{*selection_.quantize, selection_.keep_dtype, {}};
  if (names_of_decoded_hold()) rules.names = facts_.record->decoded;
  EncodedTargets found = encode_targets(config_to_encode_by(), tensors, rules);
  std::ranges::move(found.findings, std::back_inserter(result_.findings));
  std::vector<NamedLayout> made;
  std::vector<bool> is_encoded(targets.size());
  for (const EncodedTensor& tensor : found.tensors) is_encoded[tensor.target] = true;
  for (const EncodedTensor& tensor : found.tensors) encode(tensor, targets[tensor.target], made);
  for (size_t i = 0; i < targets.size(); ++i) {
    if (!is_encoded[i]) made.push_back(std::move(targets[i]));
  }
  targets = std::move(made);
  result_.original_files.clear();
  result_.original_index.reset();
  result_.config.quantisation = std::move(found.config);
}

void Planner::encode(const EncodedTensor& tensor, const NamedLayout& target,
                     std::vector<NamedLayout>& made) {
  NodeLayouts node{tensor.codec, true, tensor.coded_shape, {}};
  node.inputs.push_back(
      {target.name, DType::F32, compose(tensor.layout, std::array{target.layout})});
  nodes_.push_back(std::move(node));
  int32_t result = 0;
  for (const EncodedPart& part : tensor.parts) {
    ProgramSource source = computed_source(part.name, part.dtype, part.shape_over_values);
    source.result = result++;
    encoded_blocks_[part.name] = {tensor.codec.block_rows, tensor.codec.block_cols};
    const SourceId id = add_computed(std::move(source));
    made.push_back(
        {part.name, part.dtype, reshape(identity(id, part.shape_over_values), part.shape)});
  }
}

}  // namespace weightloom
