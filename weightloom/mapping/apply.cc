#include "weightloom/mapping/apply.h"

#include <algorithm>
#include <map>
#include <tuple>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "weightloom/mapping/application_internal.h"
#include "weightloom/mapping/check_group_internal.h"

namespace weightloom {
namespace {

std::optional<ListLength> list_length(const WeightConverter& converter, const ModelConfig& config) {
  if (converter.operations.empty()) return std::nullopt;
  return converter.operations.front()->list_length(config);
}

/// One tensor of each source of a group, and the first of each other shape.
std::vector<std::pair<size_t, Shape>> distinct_shapes(const Group& group,
                                                      const std::vector<NamedLayout>& leaves) {
  std::vector<std::pair<size_t, Shape>> distinct;
  for (const auto& items : group.sources) {
    const size_t first = distinct.size();
    for (const CollectedItem& item : items) {
      const Shape& shape = leaves[item.leaf].layout.shape();
      const bool seen =
          std::any_of(distinct.begin() + static_cast<std::ptrdiff_t>(first), distinct.end(),
                      [&](const auto& other) { return other.second == shape; });
      if (!seen) distinct.emplace_back(item.leaf, shape);
    }
  }
  return distinct;
}

std::string refusal_code(const Error& error) {
  if (!error.findings().empty()) return error.findings().front().code;
  return error.code() == ErrorCode::unsupported ? "unsupported" : "operation_refused";
}

size_t first_leaf(const Group& group) {
  return std::ranges::find_if(group.sources, [](const auto& items) { return !items.empty(); })
      ->front()
      .leaf;
}

}  // namespace

void Application::check_groups() {
  for (auto& group : collector_.groups()) {
    if (group.refused) continue;
    auto findings = check_group(collector_, group, leaves_, list_length(converter(group), config_),
                                mixed_floats_);
    group.refused = !findings.empty();
    take_findings(std::move(findings));
  }
}

void Application::pass_through() {
  const auto& destinations = collector_.destinations();
  products_.reserve(leaves_.size());
  for (size_t leaf = 0; leaf < leaves_.size(); ++leaf) {
    if (destinations[leaf].group || follows_[leaf]) continue;
    if (!destinations[leaf].touched) ++result_.passed_through;
    products_.push_back(
        {{destinations[leaf].name, leaves_[leaf].dtype, std::move(leaves_[leaf].layout)},
         leaf,
         std::nullopt});
  }
}

std::vector<Slot> Application::slots_of(const Group& group) {
  std::vector<Slot> slots;
  for (size_t s = 0; s < group.sources.size(); ++s) {
    Slot slot;
    slot.pattern = converter(group).source_patterns[s];
    slot.is_list = collector_.matcher(group.transform).collects(static_cast<int>(s));
    for (const auto& item : group.sources[s]) {
      slot.items.push_back(std::move(leaves_[item.leaf].layout));
    }
    slots.push_back(std::move(slot));
  }
  return slots;
}

std::vector<Slot> Application::slots_of(const Group& group, const CompanionSet& set) {
  std::vector<Slot> slots;
  for (size_t s = 0; s < group.sources.size(); ++s) {
    Slot slot;
    slot.pattern = converter(group).source_patterns[s];
    slot.is_list = collector_.matcher(group.transform).collects(static_cast<int>(s));
    for (const size_t leaf : set.leaves[s]) slot.items.push_back(leaves_[leaf].layout);
    slots.push_back(std::move(slot));
  }
  return slots;
}

ChainGroup Application::chain_group(const Group& group, const std::vector<CompanionSet>& sets) {
  const size_t leaf = first_leaf(group);
  ChainGroup chain;
  chain.push_back({slots_of(group), leaves_[leaf].dtype, leaf, "", {}});
  for (const CompanionSet& set : sets) {
    const size_t first = *index_.find(leaves_[leaf].name + set.suffix);
    chain.push_back({slots_of(group, set), leaves_[first].dtype, first, set.suffix, set.block});
  }
  return chain;
}

void Application::convert(size_t place) {
  const Group& group = collector_.groups()[place];
  const auto& patterns = converter(group).target_patterns;
  const OperationContext context{&config_, static_cast<int>(patterns.size()), patterns};
  const auto shapes = distinct_shapes(group, leaves_);
  try {
    ChainGroup made = run_chain(converter(group), chain_group(group, companions_[place]), context);
    for (ChainTensors& tensors : made) emit(group, std::move(tensors));
  } catch (const Error& error) {
    const std::string target = group.targets.front().shown();
    std::string of;
    for (const auto& [leaf, shape] : shapes) {
      of += fmt::format("{}'{}' {}", of.empty() ? "" : ", ", leaves_[leaf].name, to_string(shape));
    }
    add(refusal_code(error), target, fmt::format("'{}': {} (of {})", target, error.what(), of));
  }
}

void Application::emit(const Group& group, ChainTensors made) {
  auto& slots = made.slots;
  const std::string target = group.targets.front().shown();
  if (slots.size() != group.targets.size()) {
    return add("target_count", target,
               fmt::format("'{}': the operations give {} tensors, but there are {} target patterns",
                           target, slots.size(), group.targets.size()));
  }
  for (size_t t = 0; t < slots.size(); ++t) {
    const RenderedName& name = group.targets[t];
    if (slots[t].is_list != name.enumerates()) {
      return add("target_count", name.shown(),
                 slots[t].is_list
                     ? fmt::format("'{}': the operations give a list of {}, but the target pattern "
                                   "has no '*.' to number it",
                                   name.shown(), slots[t].items.size())
                     : fmt::format("'{}': the operations give 1 tensor, but the target pattern "
                                   "numbers a list",
                                   name.shown()));
    }
  }
  for (size_t t = 0; t < slots.size(); ++t) {
    const RenderedName& name = group.targets[t];
    for (size_t i = 0; i < slots[t].items.size(); ++i) {
      std::string text = name.enumerates() ? name.at_index(static_cast<int64_t>(i)) : name.text;
      products_.push_back({{text + made.suffix, made.dtype, std::move(slots[t].items[i])},
                           made.leaf,
                           group.transform,
                           group.prefix_edited});
    }
  }
}

/// Backwards, renamings follow. Forwards they must leave converted names alone.
void Application::rename_products() {
  if (mapping_.renames_first()) {
    refuse_rewritten_products();
  } else {
    undo_renames();
  }
}

void Application::undo_renames() {
  collector_.decide_guards(products_.size(),
                           [this](size_t i) { return std::string_view(products_[i].tensor.name); });
  for (auto& product : products_) {
    auto renamed = collector_.rename(std::move(product.tensor.name), true);
    product.tensor.name = std::move(renamed.name);
    if (!product.transform && renamed.last) --result_.passed_through;
  }
}

/// True if the renamings, run over what they make of a name, change it again: then that they would
/// change what a converter made is their own doing, not the converter's.
bool Application::would_act_again(const std::string& name) {
  const std::string once = collector_.rename(name, false).name;
  return collector_.rename(once, false).name != once;
}

/// What a renaming rewrote would not find its way back. Of a name that the model is known to have
/// the way back is proved when it is gone.
void Application::refuse_rewritten_products() {
  std::map<std::pair<size_t, size_t>, int64_t> rewritten;  // renaming, converter
  for (auto& product : products_) {
    if (!product.transform || product.prefix_edited || runtime_.has(product.tensor.name)) continue;
    const auto renamed = collector_.rename(product.tensor.name, false);
    if (!renamed.last || renamed.name == product.tensor.name) continue;
    if (would_act_again(leaves_[product.leaf].name)) continue;
    if (rewritten[{*renamed.last, *product.transform}]++ > 0) continue;
    add("rename_rewrites_product", product.tensor.name,
        fmt::format("'{}', which transforms[{}] makes, would be rewritten to '{}' by the renaming "
                    "transforms[{}]",
                    product.tensor.name, *product.transform, renamed.name, *renamed.last));
  }
}

void Application::check_required() {
  for (size_t i = 0; i < mapping_.transforms().size(); ++i) {
    if (collector_.fired()[i] > 0) continue;
    const TransformForm form = form_of(mapping_.transforms()[i]);
    if (!form.required) continue;
    add("required_unmatched", "",
        fmt::format("mapping '{}': transforms[{}] is required, but no tensor matches '{}'",
                    mapping_.name(), i, fmt::join(form.source_patterns, "' or '")));
  }
}

/// Of tensors with one name, the first stays. `products_` is sorted.
void Application::drop_duplicates() {
  for (size_t i = 1; i < products_.size(); ++i) {
    const auto& [first, second] = std::tie(products_[i - 1], products_[i]);
    if (first.tensor.name != second.tensor.name) continue;
    add("duplicate_target", second.tensor.name,
        fmt::format("'{}' would be made twice: of '{}' and of '{}'", second.tensor.name,
                    leaves_[first.leaf].name, leaves_[second.leaf].name));
  }
  const auto again = std::ranges::unique(
      products_, {}, [](const Product& p) -> const std::string& { return p.tensor.name; });
  products_.erase(again.begin(), again.end());
}

MappingResult Application::finish() {
  std::ranges::sort(products_, {},
                    [](const Product& p) { return std::tie(p.tensor.name, p.leaf); });
  drop_duplicates();
  result_.tensors.reserve(products_.size());
  for (auto& product : products_) result_.tensors.push_back(std::move(product.tensor));
  result_.fired = std::move(collector_.fired());
  result_.edited = collector_.edited_names();
  return std::move(result_);
}

MappingResult apply_mapping(const Mapping& mapping, std::vector<NamedLayout> leaves,
                            const ModelConfig& config, const ApplyOptions& options) {
  return Application(mapping, std::move(leaves), config, options).run();
}

}  // namespace weightloom
