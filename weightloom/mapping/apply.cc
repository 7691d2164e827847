#include "weightloom/mapping/apply.h"

#include <algorithm>
#include <map>
#include <tuple>
#include <unordered_map>
#include <utility>

#include <fmt/format.h>

#include "weightloom/mapping/check_group.h"
#include "weightloom/mapping/collect.h"
#include "weightloom/mapping/companions.h"

namespace weightloom {
namespace {

/// A tensor of the result and a leaf it was made of.
struct Product {
  NamedLayout tensor;
  size_t leaf = 0;
  std::optional<size_t> transform;  // the converter that made it
};

class Application {
 public:
  Application(const Mapping& mapping, std::vector<NamedLayout> leaves, const ModelConfig& config,
              int threads, bool mixed_floats)
      : mapping_(mapping),
        leaves_(std::move(leaves)),
        config_(config),
        mixed_floats_(mixed_floats),
        collector_(collect(mapping, leaves_.size(), threads,
                           [this](size_t leaf) { return std::string_view(leaves_[leaf].name); })) {}

  MappingResult run() && {
    take_findings(std::move(collector_.findings()));
    check_companions();
    check_groups();
    pass_through();
    for (auto& group : collector_.groups()) {
      if (!group.refused) convert(group);
    }
    rename_products();
    check_required();
    return finish();
  }

 private:
  void add(std::string code, std::string tensor, std::string message) {
    result_.findings.push_back(
        {Severity::error, std::move(code), std::move(tensor), "", std::move(message)});
  }
  void take_findings(std::vector<Finding> findings) {
    std::ranges::move(findings, std::back_inserter(result_.findings));
  }
  const WeightConverter& converter(const Group& group) const {
    return std::get<WeightConverter>(mapping_.transforms()[group.transform]);
  }

  void check_companions();
  std::optional<std::string> target_without(size_t companion, const std::string& owner,
                                            std::optional<size_t> owner_leaf);
  void check_groups();
  void pass_through();
  void convert(Group& group);
  std::vector<Slot> slots_of(const Group& group);
  void emit(const Group& group, std::vector<Slot> slots, DType dtype, size_t leaf);
  void rename_products();
  void check_required();
  void drop_duplicates();
  MappingResult finish();

  const Mapping& mapping_;
  std::vector<NamedLayout> leaves_;
  const ModelConfig& config_;
  const bool mixed_floats_;
  Collector collector_;
  std::vector<Product> products_;
  MappingResult result_;
};

/// Pairs of a tensor and its companion that stand in the way of one target.
struct Companions {
  std::string owner;
  std::string companion;
  bool owner_present = true;
  int64_t count = 0;
};

/// Looks leaves up by name; the table is made when it is first asked, since most checkpoints never
/// do.
class LeafIndex {
 public:
  explicit LeafIndex(const std::vector<NamedLayout>& leaves) : leaves_(leaves) {}

  std::optional<size_t> find(std::string_view name) {
    if (by_name_.empty()) {
      for (size_t i = 0; i < leaves_.size(); ++i) by_name_.emplace(leaves_[i].name, i);
    }
    const auto found = by_name_.find(name);
    return found == by_name_.end() ? std::nullopt : std::optional(found->second);
  }

 private:
  const std::vector<NamedLayout>& leaves_;
  std::unordered_map<std::string_view, size_t> by_name_;
};

/// The target that takes `owner` (leaf `owner_leaf`, if there is one) without its companion.
std::optional<std::string> Application::target_without(size_t companion, const std::string& owner,
                                                       std::optional<size_t> owner_leaf) {
  if (!owner_leaf) return collector_.would_make(owner);
  const auto group = collector_.destinations()[*owner_leaf].group;
  if (!group || group == collector_.destinations()[companion].group) return std::nullopt;
  collector_.groups()[*group].refused = true;
  return collector_.groups()[*group].targets.front().shown();
}

void Application::check_companions() {
  LeafIndex index(leaves_);
  std::map<std::string, Companions> by_target;
  for (size_t leaf = 0; leaf < leaves_.size(); ++leaf) {
    for (const auto& owner : companion_owners(leaves_[leaf].name)) {
      const auto owner_leaf = index.find(owner);
      const auto target = target_without(leaf, owner, owner_leaf);
      if (!target) continue;
      const Companions first{owner, leaves_[leaf].name, owner_leaf.has_value()};
      ++by_target.try_emplace(*target, first).first->second.count;
    }
  }
  for (const auto& [target, pairs] : by_target) {
    add("companion_refused", pairs.companion,
        fmt::format("'{}': {} of its sources {} a companion that this mapping does not convert: "
                    "'{}' {} '{}'",
                    target, pairs.count, pairs.count == 1 ? "has" : "have", pairs.companion,
                    pairs.owner_present ? "belongs to" : "stands without its", pairs.owner));
  }
}

std::optional<ListLength> list_length(const WeightConverter& converter, const ModelConfig& config) {
  if (converter.operations.empty()) return std::nullopt;
  return converter.operations.front()->list_length(config);
}

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
    if (destinations[leaf].group) continue;
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

/// "'a.w' [2, 3], 'b.w' [2, 4]": one tensor of each source, and the first of each other shape.
std::string shapes_of(const std::vector<Slot>& slots, const Group& group,
                      const std::vector<NamedLayout>& leaves) {
  std::string text;
  for (size_t s = 0; s < slots.size(); ++s) {
    std::vector<Shape> seen;
    for (size_t i = 0; i < slots[s].items.size(); ++i) {
      const Shape& shape = slots[s].items[i].shape();
      if (std::ranges::find(seen, shape) != seen.end()) continue;
      seen.push_back(shape);
      text += fmt::format("{}'{}' {}", text.empty() ? "" : ", ",
                          leaves[group.sources[s][i].leaf].name, to_string(shape));
    }
  }
  return text;
}

std::string refusal_code(const Error& error) {
  if (!error.findings().empty()) return error.findings().front().code;
  return error.code() == ErrorCode::unsupported ? "unsupported" : "operation_refused";
}

void Application::convert(Group& group) {
  const CollectedItem first = std::ranges::find_if(group.sources, [](const auto& items) {
                                return !items.empty();
                              })->front();
  const DType dtype = leaves_[first.leaf].dtype;
  const auto& patterns = converter(group).target_patterns;
  const OperationContext context{&config_, static_cast<int>(patterns.size()), patterns};
  std::vector<Slot> slots = slots_of(group);
  const std::string shapes = shapes_of(slots, group, leaves_);
  try {
    for (const auto& operation : converter(group).operations) {
      slots = operation->apply(std::move(slots), context);
    }
  } catch (const Error& error) {
    const std::string target = group.targets.front().shown();
    add(refusal_code(error), target, fmt::format("'{}': {} (of {})", target, error.what(), shapes));
    return;
  }
  emit(group, std::move(slots), dtype, first.leaf);
}

void Application::emit(const Group& group, std::vector<Slot> slots, DType dtype, size_t leaf) {
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
      products_.push_back(
          {{std::move(text), dtype, std::move(slots[t].items[i])}, leaf, group.transform});
    }
  }
}

/// Backwards, renamings follow. Forwards they must leave converted names alone: what they rewrote
/// would not find its way back.
void Application::rename_products() {
  std::map<std::pair<size_t, size_t>, int64_t> rewritten;  // renaming, converter
  for (auto& product : products_) {
    if (!mapping_.renames_first()) {
      auto renamed = collector_.rename(std::move(product.tensor.name), true);
      product.tensor.name = std::move(renamed.name);
      if (!product.transform && renamed.last) --result_.passed_through;
      continue;
    }
    if (!product.transform) continue;
    const auto renamed = collector_.rename(product.tensor.name, false);
    if (!renamed.last || renamed.name == product.tensor.name) continue;
    if (rewritten[{*renamed.last, *product.transform}]++ > 0) continue;
    add("rename_rewrites_product", product.tensor.name,
        fmt::format("'{}', which transforms[{}] makes, would be rewritten to '{}' by the renaming "
                    "transforms[{}]",
                    product.tensor.name, *product.transform, renamed.name, *renamed.last));
  }
}

void Application::check_required() {
  for (size_t i = 0; i < mapping_.transforms().size(); ++i) {
    const auto& transform = mapping_.transforms()[i];
    const bool required = std::visit([](const auto& t) { return t.required; }, transform);
    if (!required || collector_.fired()[i] > 0) continue;
    const auto& sources = std::visit([](const auto& t) { return t.source_patterns; }, transform);
    add("required_unmatched", "",
        fmt::format("mapping '{}': transforms[{}] is required, but no tensor matches '{}'",
                    mapping_.name(), i, fmt::join(sources, "' or '")));
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
  return std::move(result_);
}

/// True if a transform of the mapping matches one of the names. What a renaming leaves of a name
/// needs no look: then the renaming has matched.
bool any_matches(const Mapping& mapping, std::span<const std::string_view> names) {
  std::vector<TransformMatcher> matchers;
  for (const auto& transform : mapping.transforms()) {
    matchers.emplace_back(transform, Pattern::Use::search);
  }
  return std::ranges::any_of(names, [&](std::string_view name) {
    return std::ranges::any_of(matchers, [&](auto& matcher) { return matcher.matches(name); });
  });
}

}  // namespace

MappingResult apply_mapping(const Mapping& mapping, std::vector<NamedLayout> leaves,
                            const ModelConfig& config, int threads, bool mixed_floats) {
  return Application(mapping, std::move(leaves), config, threads, mixed_floats).run();
}

SideEvidence side_evidence(const Mapping& mapping, std::span<const std::string_view> names) {
  SideEvidence evidence;
  evidence.hub = any_matches(mapping, names);
  try {
    evidence.runtime = any_matches(mapping.reversed(), names);
  } catch (const Error&) {
    // A mapping without a way back leaves no names to know the runtime side by.
  }
  return evidence;
}

}  // namespace weightloom
