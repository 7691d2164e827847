#include "weightloom/cli/tensor_card.h"

#include <algorithm>

#include <fmt/format.h>

#include "weightloom/base/byte_size.h"
#include "weightloom/cli/html_text.h"
#include "weightloom/cli/quantity.h"
#include "weightloom/cli/tensor_groups.h"

namespace weightloom::cli {
namespace {

constexpr size_t kMostKeys = 32;    // of one name, drawn
constexpr size_t kMostPieces = 16;  // drawn
constexpr size_t kMostMarks = 16;   // ranks that a rectangle can be picked by

/// The places of `count` things that are drawn: all, or those at both ends.
std::vector<size_t> drawn_of(size_t count, size_t most) {
  std::vector<size_t> drawn;
  for (size_t i = 0; i < count; ++i) {
    if (count <= most || i < most * 3 / 4 || i >= count - most / 4) drawn.push_back(i);
  }
  return drawn;
}

/// The colour of the first rank, and marks of all that hold it.
std::string classes_of(const PlanPicture& picture, const std::vector<int64_t>& ranks) {
  if (ranks.size() > 1 && ranks.size() == picture.ranks.size()) return "all";
  std::string classes = fmt::format("r{}", ranks.front());
  for (size_t i = 1; i < std::min(ranks.size(), kMostMarks); ++i) {
    classes += fmt::format(" m{}", ranks[i]);
  }
  return classes;
}

/// How much of a box is meant, where that is not all of it.
std::string part_text(const Box& box) {
  return box.is_partial() ? fmt::format(" (in part: {})", format_byte_size(box.bytes)) : "";
}

std::string key_rectangle(const PlanPicture& picture, const KeyPicture& key,
                          const KeyStretch& stretch) {
  std::string classes = classes_of(picture, stretch.ranks);
  if (stretch.box.is_partial()) classes += " part";
  return html_rectangle(
      patch_of(stretch.box, key.dtype, key.shape), classes,
      fmt::format("{}: {}{}{}", ranks_text(stretch.ranks), key.name,
                  slice_text(stretch.box, key.dtype, key.shape), part_text(stretch.box)));
}

std::string key_drawing(const PlanPicture& picture, const KeyPicture& key, double width) {
  std::string rectangles;
  for (const KeyStretch& stretch : key.stretches) {
    rectangles += key_rectangle(picture, key, stretch);
  }
  return html_drawing("key", width, rectangles);
}

/// Keys whose names differ in numbers only.
struct KeyStrip {
  std::string skeleton;
  FoldedName name;
  std::vector<const KeyPicture*> keys;
  int64_t bytes = 0;
};

std::vector<KeyStrip> strips_of(const TensorPattern& pattern) {
  std::vector<KeyStrip> strips;
  for (const KeyPicture& key : pattern.keys) {
    const NumberedName name = number_name(key.name);
    auto strip = std::ranges::find(strips, name.skeleton, &KeyStrip::skeleton);
    if (strip == strips.end()) {
      strips.push_back({name.skeleton, FoldedName(name.skeleton), {}, 0});
      strip = strips.end() - 1;
    }
    strip->name.add(name.numbers);
    strip->keys.push_back(&key);
    strip->bytes += key.size_bytes;
  }
  return strips;
}

double share(int64_t part, int64_t whole) {
  return whole == 0 ? 0 : static_cast<double>(part) / static_cast<double>(whole);
}

std::string files_of(const PlanPicture& picture, const KeyStrip& strip) {
  std::vector<int32_t> files;
  for (const KeyPicture* key : strip.keys) {
    for (const int32_t file : key->files) {
      if (std::ranges::count(files, file) == 0) files.push_back(file);
    }
  }
  if (files.empty()) return "no file";
  const std::string& first = picture.files[static_cast<size_t>(files.front())].name;
  return files.size() == 1 ? first : fmt::format("{} and {} more", first, files.size() - 1);
}

/// All keys of a name side by side, to scale; `most` is the size of the largest strip.
std::string strip_row(const PlanPicture& picture, const KeyStrip& strip, int64_t most) {
  const std::vector<size_t> drawn = drawn_of(strip.keys.size(), kMostKeys);
  int64_t shown = 0;
  for (const size_t i : drawn) shown += strip.keys[i]->size_bytes;
  std::string drawings;
  for (const size_t i : drawn) {
    drawings += key_drawing(picture, *strip.keys[i], share(strip.keys[i]->size_bytes, shown));
  }
  std::string label =
      fmt::format("<span class=\"name\">{}</span> · {} in {}", html(strip.name.text()),
                  html(format_byte_size(strip.bytes)), html(files_of(picture, strip)));
  if (const std::string& computed = strip.keys.front()->computed; !computed.empty()) {
    label += fmt::format(" · {}{}", strip.keys.size() > 1 ? "the first " : "", html(computed));
  }
  if (drawn.size() < strip.keys.size()) {
    label += fmt::format(" · {} of {} drawn", drawn.size(), strip.keys.size());
  }
  return fmt::format(
      "<div class=\"key-row\">{}<div class=\"keys\" style=\"width:{}\">{}</div></div>\n", label,
      percent(share(strip.bytes, most)), drawings);
}

std::string keys_part(const PlanPicture& picture, const TensorPattern& pattern) {
  const std::vector<KeyStrip> strips = strips_of(pattern);
  int64_t most = 0;
  for (const KeyStrip& strip : strips) most = std::max(most, strip.bytes);
  std::string text;
  for (const KeyStrip& strip : strips) text += strip_row(picture, strip, most);
  return text;
}

std::string piece_rectangle(const PlanPicture& picture, const TensorPattern& pattern,
                            const RankPiece& piece, const PieceStretch& stretch) {
  const std::string place = slice_text(stretch.box, pattern.dtype, piece.shape);
  const Patch patch = patch_of(stretch.box, pattern.dtype, piece.shape);
  if (stretch.key < 0) {
    return html_rectangle(patch, "pad", fmt::format("padding: {}", place));
  }
  return html_rectangle(
      patch, classes_of(picture, piece.ranks),
      fmt::format("{} from {}{}", place, pattern.keys[static_cast<size_t>(stretch.key)].name,
                  part_text(stretch.box)));
}

std::string piece_cell(const PlanPicture& picture, const TensorPattern& pattern,
                       const RankPiece& piece, int64_t most) {
  std::string rectangles;
  for (const PieceStretch& stretch : piece.stretches) {
    rectangles += piece_rectangle(picture, pattern, piece, stretch);
  }
  std::string label = fmt::format("{} · {} {}", ranks_text(piece.ranks), to_string(piece.shape),
                                  format_byte_size(piece.size_bytes));
  if (piece.pad_bytes > 0) {
    label += fmt::format(", {} padding", format_byte_size(piece.pad_bytes));
  }
  const double width = share(piece.size_bytes, most);
  return fmt::format("<div>{}{}</div>\n", html(label),
                     piece.size_bytes == 0 ? "" : html_drawing("piece", width, rectangles));
}

std::string pieces_part(const PlanPicture& picture, const TensorPattern& pattern) {
  int64_t most = 0;
  for (const RankPiece& piece : pattern.pieces) most = std::max(most, piece.size_bytes);
  std::string text;
  const std::vector<size_t> drawn = drawn_of(pattern.pieces.size(), kMostPieces);
  for (size_t i = 0; i < drawn.size(); ++i) {
    if (i > 0 && drawn[i] != drawn[i - 1] + 1) {
      text += fmt::format("<div>… {} more …</div>\n", drawn[i] - drawn[i - 1] - 1);
    }
    text += piece_cell(picture, pattern, pattern.pieces[drawn[i]], most);
  }
  return text;
}

std::string tag(std::string_view classes, std::string_view text) {
  return fmt::format("<span class=\"tag {}\">{}</span>", classes, html(text));
}

std::string heading(const TensorPattern& pattern) {
  std::string text = fmt::format("<span class=\"name\">{}</span>", html(pattern.name.text()));
  if (pattern.name.count() > 1) text += tag("", times_text(pattern.name.count()));
  text += tag("", type_text(pattern.dtype, pattern.shape));
  text += tag("", format_byte_size(pattern.bytes));
  if (!pattern.placement.empty()) text += tag("place", pattern.placement);
  const double read =
      pattern.bytes_needed == 0 ? 1 : share(pattern.bytes_read, pattern.bytes_needed);
  return text + tag("", fmt::format("read ×{:.2f}", read));
}

}  // namespace

std::string ranks_text(const std::vector<int64_t>& ranks) {
  return fmt::format("{} {}", ranks.size() == 1 ? "rank" : "ranks", numbers_text(ranks));
}

std::string tensor_card(const PlanPicture& picture, const TensorPattern& pattern) {
  std::string text =
      fmt::format("<details class=\"card\" open><summary>{}</summary>\n", heading(pattern));
  if (pattern.name.count() > 1) {
    text += fmt::format("<p>drawn: <code>{}</code></p>\n", html(pattern.first));
  }
  text += "<h3>Keys</h3>\n" + keys_part(picture, pattern);
  text += fmt::format("<h3>Ranks</h3>\n<div class=\"pieces\">\n{}</div>\n",
                      pieces_part(picture, pattern));
  return text + "</details>\n";
}

}  // namespace weightloom::cli
