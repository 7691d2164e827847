#include <algorithm>
#include <tuple>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "weightloom/codec/cast.h"
#include "weightloom/mapping/check_group_internal.h"

namespace weightloom {
namespace {

constexpr size_t kMostNames = 16;  // of one kind, in one message

/// Names for a message: the first ones, and how many there are besides.
class NameList {
 public:
  void add(const auto& make_name) {
    if (names_.size() < kMostNames) names_.push_back(make_name());
    ++count_;
  }
  void set_count(size_t count) { count_ = count; }
  bool full() const { return names_.size() == kMostNames; }
  bool empty() const { return count_ == 0; }
  const std::string& first() const { return names_.front(); }
  std::string text() const {
    std::string text = fmt::format("'{}'", fmt::join(names_, "', '"));
    if (count_ > names_.size()) text += fmt::format(" and {} more", count_ - names_.size());
    return text;
  }
  std::string_view are() const { return count_ == 1 ? "is" : "are"; }

 private:
  std::vector<std::string> names_;
  size_t count_ = 0;
};

class GroupCheck {
 public:
  GroupCheck(Collector& collector, Group& group, std::span<const NamedLayout> leaves,
             std::optional<ListLength> length, bool mixed_floats)
      : collector_(collector),
        group_(group),
        leaves_(leaves),
        length_(std::move(length)),
        mixed_floats_(mixed_floats) {}

  std::vector<Finding> run() && {
    for (auto& items : group_.sources) {
      std::ranges::sort(items, {},
                        [](const auto& item) { return std::tie(item.index, item.leaf); });
    }
    check_duplicates();
    if (findings_.empty()) check_presence();
    check_dtypes();
    return std::move(findings_);
  }

 private:
  std::string target() const { return group_.targets.front().shown(); }
  const std::string& name_of(const CollectedItem& item) const { return leaves_[item.leaf].name; }
  bool collects(size_t source) const {
    return collector_.matcher(group_.transform).collects(static_cast<int>(source));
  }

  const CollectedItem& any_item() const {
    for (const auto& items : group_.sources) {
      if (!items.empty()) return items.front();
    }
    return group_.sources.front().front();
  }

  std::string absent(size_t source, int64_t index) const {
    const auto& items = group_.sources[source];
    const CollectedItem& sibling = items.empty() ? any_item() : items.front();
    return collector_.absent_name(group_, name_of(sibling), source, index);
  }

  void add(std::string code, std::string tensor, std::string message) {
    findings_.push_back(
        {Severity::error, std::move(code), std::move(tensor), "", std::move(message)});
  }

  void check_duplicates() {
    for (const auto& items : group_.sources) {
      for (size_t i = 1; i < items.size(); ++i) {
        if (items[i].index != items[i - 1].index) continue;
        add("duplicate_target", target(),
            fmt::format("'{}' and '{}' both go to one place of '{}'", name_of(items[i - 1]),
                        name_of(items[i]), target()));
      }
    }
  }

  bool holds(size_t source, int64_t index) const {
    return std::ranges::binary_search(group_.sources[source], index, {}, &CollectedItem::index);
  }

  std::vector<size_t> lists() const {
    std::vector<size_t> lists;
    for (size_t s = 0; s < group_.sources.size(); ++s) {
      if (collects(s)) lists.push_back(s);
    }
    return lists;
  }

  /// Indexes that any list holds, ascending.
  std::vector<int64_t> held() const {
    std::vector<int64_t> held;
    for (const size_t s : lists()) {
      for (const auto& item : group_.sources[s]) held.push_back(item.index);
    }
    std::ranges::sort(held);
    held.erase(std::ranges::unique(held).begin(), held.end());
    return held;
  }

  void check_presence() {
    const auto held_somewhere = held();
    const int64_t stored = held_somewhere.empty() ? 0 : held_somewhere.back() + 1;
    report(missing(held_somewhere), gaps(held_somewhere, stored), uncounted(stored));
    check_surplus();
  }

  /// What some other source has, at that index, and sources without index.
  NameList missing(const std::vector<int64_t>& held_somewhere) const {
    NameList names;
    for (size_t s = 0; s < group_.sources.size(); ++s) {
      if (!collects(s)) {
        if (group_.sources[s].empty()) names.add([&] { return absent(s, 0); });
        continue;
      }
      if (held_somewhere.empty()) names.add([&] { return absent(s, 0); });
      for (const int64_t index : held_somewhere) {
        if (!holds(s, index)) names.add([&] { return absent(s, index); });
      }
    }
    return names;
  }

  /// What no list has, though some list goes further. Counted, not walked: an index may be
  /// anything.
  NameList gaps(const std::vector<int64_t>& held_somewhere, int64_t stored) const {
    NameList names;
    const auto lists = this->lists();
    auto next_held = held_somewhere.begin();
    for (int64_t index = 0; index < stored && !names.full(); ++index) {
      if (*next_held == index) {
        ++next_held;
        continue;
      }
      for (const size_t s : lists) names.add([&] { return absent(s, index); });
    }
    names.set_count((static_cast<size_t>(stored) - held_somewhere.size()) * lists.size());
    return names;
  }

  /// What config.json alone says must be there.
  NameList uncounted(int64_t stored) const {
    NameList names;
    if (!length_ || length_->length <= stored) return names;
    const auto lists = this->lists();
    for (int64_t index = stored; index < length_->length && !names.full(); ++index) {
      for (const size_t s : lists) names.add([&] { return absent(s, index); });
    }
    names.set_count(static_cast<size_t>(length_->length - stored) * lists.size());
    return names;
  }

  void report(const NameList& missing, const NameList& gaps, const NameList& uncounted) {
    if (!missing.empty()) {
      add("missing_source", missing.first(),
          fmt::format("'{}': of its sources, {} {} missing", target(), missing.text(),
                      missing.are()));
    }
    if (!gaps.empty()) {
      add("index_gap", gaps.first(),
          fmt::format("'{}': {} {} missing; {}", target(), gaps.text(), gaps.are(),
                      past_dense_range()));
    }
    if (!uncounted.empty()) {
      add("count_mismatch", uncounted.first(),
          fmt::format("'{}': {} {} missing: config.json says {} = {}", target(), uncounted.text(),
                      uncounted.are(), length_->key, length_->length));
    }
  }

  /// "its 11 items are numbered up to 11 ('a.11.w')" of the list that reaches furthest.
  std::string past_dense_range() const {
    std::string text;
    for (size_t s = 0; s < group_.sources.size(); ++s) {
      const auto& items = group_.sources[s];
      if (!collects(s) || items.empty()) continue;
      NameList past;
      for (const auto& item : items) {
        if (std::cmp_less(item.index, items.size())) continue;
        past.add([&] { return name_of(item); });
      }
      if (past.empty()) continue;
      if (!text.empty()) text += "; ";
      text += fmt::format("{} items are numbered up to {}, past their number: {}", items.size(),
                          items.back().index, past.text());
    }
    return text;
  }

  void check_surplus() {
    if (!length_) return;
    NameList surplus;
    for (size_t s = 0; s < group_.sources.size(); ++s) {
      if (!collects(s)) continue;
      for (const auto& item : group_.sources[s]) {
        if (item.index >= length_->length) surplus.add([&] { return name_of(item); });
      }
    }
    if (surplus.empty()) return;
    add("count_mismatch", surplus.first(),
        fmt::format("'{}': {} {} too many: config.json says {} = {}", target(), surplus.text(),
                    surplus.are(), length_->key, length_->length));
  }

  void check_dtypes() {
    const auto& first = leaves_[any_item().leaf];
    for (const auto& items : group_.sources) {
      for (const auto& item : items) {
        const auto& leaf = leaves_[item.leaf];
        if (leaf.dtype == first.dtype) continue;
        if (mixed_floats_ && is_castable(leaf.dtype) && is_castable(first.dtype)) continue;
        return add("dtype_mismatch", leaf.name,
                   fmt::format("'{}': '{}' is {}, but '{}' is {}", target(), leaf.name,
                               to_string(leaf.dtype), first.name, to_string(first.dtype)));
      }
    }
  }

  Collector& collector_;
  Group& group_;
  std::span<const NamedLayout> leaves_;
  std::optional<ListLength> length_;
  bool mixed_floats_;
  std::vector<Finding> findings_;
};

}  // namespace

std::vector<Finding> check_group(Collector& collector, Group& group,
                                 std::span<const NamedLayout> leaves,
                                 std::optional<ListLength> length, bool mixed_floats) {
  return GroupCheck(collector, group, leaves, std::move(length), mixed_floats).run();
}

}  // namespace weightloom
