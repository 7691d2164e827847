#include "weightloom/layout/notation.h"

#include <charconv>
#include <iterator>
#include <limits>

#include <fmt/format.h>

#include "weightloom/base/error.h"

namespace weightloom {
namespace {

void append_axis(std::string& text, const Axis& axis, bool is_pad) {
  const auto out = std::back_inserter(text);
  if (is_pad) {
    fmt::format_to(out, "{}:{}", axis.extent, axis.target_stride);
  } else {
    fmt::format_to(out, "{}:{}<-{}", axis.extent, axis.target_stride, axis.source_stride);
  }
}

/// Reads the notation from left to right; a failed expectation throws with its position.
class Parser {
 public:
  explicit Parser(std::string_view text) : text_(text) {}

  Layout layout() {
    Shape dims = shape();
    expect(":");
    std::vector<Region> regions = list<Region>("[", "]", ";", [this] { return region(); });
    skip_spaces();
    if (position_ != text_.size()) fail("the end");
    return Layout::make(std::move(dims), std::move(regions));
  }

 private:
  Shape shape() {
    return list<int64_t>("(", ")", ",", [this] { return number(); });
  }

  Region region() {
    Region region;
    region.target_offset = number();
    expect("<-");
    if (accept("pad")) {
      expect("(");
      region.pad_value = number();
      expect(")");
    } else {
      expect("s");
      region.source = source();
      expect("+");
      region.source_offset = number();
    }
    skip_spaces();
    if (position_ < text_.size() && text_[position_] == '(') {
      const bool is_pad = region.is_pad();
      region.axes = AxisList(list<Axis>("(", ")", ",", [this, is_pad] { return axis(is_pad); }));
    }
    return region;
  }

  Axis axis(bool is_pad) {
    Axis axis;
    axis.extent = number();
    expect(":");
    axis.target_stride = number();
    if (is_pad) return axis;
    expect("<-");
    axis.source_stride = number();
    return axis;
  }

  SourceId source() {
    const size_t start = position_;
    const int64_t id = number();
    if (id < 0 || id > std::numeric_limits<SourceId>::max()) {
      position_ = start;
      fail("a source number in [0, 2^31)");
    }
    return static_cast<SourceId>(id);
  }

  int64_t number() {
    skip_spaces();
    int64_t value = 0;
    const char* begin = text_.data() + position_;
    const auto [end, error] = std::from_chars(begin, text_.data() + text_.size(), value);
    if (error != std::errc()) fail("a 64-bit number");
    position_ += static_cast<size_t>(end - begin);
    return value;
  }

  template <typename Item, typename ReadItem>
  std::vector<Item> list(std::string_view open, std::string_view close, std::string_view comma,
                         ReadItem read_item) {
    std::vector<Item> items;
    expect(open);
    if (accept(close)) return items;
    do {
      items.push_back(read_item());
    } while (accept(comma));
    expect(close);
    return items;
  }

  bool accept(std::string_view token) {
    skip_spaces();
    if (!text_.substr(position_).starts_with(token)) return false;
    position_ += token.size();
    return true;
  }

  void expect(std::string_view token) {
    if (!accept(token)) fail(fmt::format("'{}'", token));
  }

  void skip_spaces() {
    while (position_ < text_.size() && (text_[position_] == ' ' || text_[position_] == '\n')) {
      ++position_;
    }
  }

  [[noreturn]] void fail(std::string_view needed) const {
    const std::string found =
        position_ < text_.size() ? fmt::format("'{}'", text_.substr(position_, 12)) : "the end";
    throw Error(ErrorCode::format, fmt::format("layout notation: position {}: found {}, needed {}",
                                               position_, found, needed));
  }

  std::string_view text_;
  size_t position_ = 0;
};

}  // namespace

std::string to_string(const Region& region) {
  std::string text = fmt::format("{}<-", region.target_offset);
  if (region.is_pad()) {
    text += fmt::format("pad({})", region.pad_value);
  } else {
    text += fmt::format("s{}+{}", region.source, region.source_offset);
  }
  for (size_t i = 0; i < region.axes.size(); ++i) {
    text += i == 0 ? " (" : ", ";
    append_axis(text, region.axes[i], region.is_pad());
  }
  if (!region.axes.empty()) text += ')';
  return text;
}

std::string to_string(const Layout& layout) {
  std::string text = "(";
  for (size_t i = 0; i < layout.shape().size(); ++i) {
    text += fmt::format("{}{}", i == 0 ? "" : ", ", layout.shape()[i]);
  }
  text += "):[";
  for (size_t i = 0; i < layout.regions().size(); ++i) {
    if (i > 0) text += "; ";
    text += to_string(layout.regions()[i]);
  }
  return text + ']';
}

Layout parse_layout(std::string_view text) { return Parser(text).layout(); }

}  // namespace weightloom
