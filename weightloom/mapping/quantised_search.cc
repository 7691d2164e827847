#include <algorithm>
#include <bit>
#include <cstring>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "weightloom/base/checked.h"
#include "weightloom/base/quote.h"
#include "weightloom/mapping/quantised_search_internal.h"

namespace weightloom {
namespace {

/// A little-endian number.
int64_t integer_at(std::string_view bytes, size_t width) {
  uint64_t value = 0;
  for (size_t i = width; i-- > 0;) value = value << 8 | static_cast<unsigned char>(bytes[i]);
  if (width == 4) return std::bit_cast<int32_t>(static_cast<uint32_t>(value));
  return std::bit_cast<int64_t>(value);
}

std::string size_text(int64_t block) { return block == kEntireDim ? "all" : std::to_string(block); }

}  // namespace

QuantisedSearch::QuantisedSearch(const QuantConfig& config, std::span<const NamedLayout> leaves,
                                 const ReadLeaf& read)
    : config_(config), leaves_(leaves), read_(read) {
  by_name_.reserve(leaves.size());
  for (size_t i = 0; i < leaves.size(); ++i) by_name_.emplace(leaves[i].name, i);
  result_.consumed.assign(leaves.size(), false);
  result_.findings = config.findings;
}

std::optional<size_t> QuantisedSearch::find(std::string_view name) const {
  const auto found = by_name_.find(name);
  return found == by_name_.end() ? std::nullopt : std::optional(found->second);
}

std::vector<int64_t> QuantisedSearch::integers_of(size_t leaf) const {
  const std::string bytes = read_(leaf);
  const size_t width = static_cast<size_t>(bits(dtype(leaf))) / 8;
  std::vector<int64_t> integers;
  for (size_t at = 0; at + width <= bytes.size(); at += width) {
    integers.push_back(integer_at(std::string_view(bytes).substr(at, width), width));
  }
  return integers;
}

std::optional<size_t> QuantisedSearch::take_if_there(const std::string& name) {
  const auto leaf = find(name);
  if (leaf) take(*leaf);
  return leaf;
}

std::optional<size_t> QuantisedSearch::take_needed(const std::string& name,
                                                   std::string_view owner) {
  const auto leaf = take_if_there(name);
  if (!leaf) {
    refuse("scale_missing", owner,
           fmt::format("{} needs {}, which is not there", quote(owner), quote(name)));
  }
  return leaf;
}

void QuantisedSearch::refuse(std::string_view code, std::string_view tensor, std::string message) {
  result_.findings.push_back(
      {Severity::error, std::string(code), std::string(tensor), "", std::move(message)});
}

bool QuantisedSearch::expect_dtype(size_t leaf, std::initializer_list<DType> dtypes,
                                   std::string_view owner) {
  if (std::ranges::find(dtypes, dtype(leaf)) != dtypes.end()) return true;
  std::vector<std::string_view> names;
  for (const DType known : dtypes) names.push_back(to_string(known));
  refuse("unknown_companion", name(leaf),
         fmt::format("{} is {}, but beside {} it must be {}", quote(name(leaf)),
                     to_string(dtype(leaf)), quote(owner), fmt::join(names, ", ")));
  return false;
}

bool QuantisedSearch::expect_shape(size_t leaf, const std::vector<Shape>& shapes,
                                   std::string_view because) {
  if (std::ranges::find(shapes, shape(leaf)) != shapes.end()) return true;
  refuse("scale_grid", name(leaf),
         fmt::format("{} is {}, but {} needs {}", quote(name(leaf)), to_string(shape(leaf)),
                     because, to_string(shapes.front())));
  return false;
}

size_t QuantisedSearch::add(QuantisedTensor tensor) {
  const auto same = tensor.name.empty() ? std::nullopt : find(tensor.name);
  if (same && !is_taken(*same)) {
    refuse("unknown_companion", tensor.name,
           fmt::format("{} is a tensor by itself, and {} stands for it too", quote(tensor.name),
                       quote(name(tensor.operands.front().place))));
  }
  if (!tensor.name.empty()) know(tensor.name);
  result_.tensors.push_back(std::move(tensor));
  return result_.tensors.size() - 1;
}

QuantisedOperand operand_of(size_t leaf, Shape seen) { return {leaf, false, std::move(seen)}; }

Shape with_matrix(Shape shape, int64_t rows, int64_t cols) {
  shape[shape.size() - 2] = rows;
  shape[shape.size() - 1] = cols;
  return shape;
}

Shape as_matrix(Shape shape) {
  while (shape.size() < 2) shape.insert(shape.begin(), 1);
  return shape;
}

Shape folded(const Shape& shape) {
  int64_t rows = 1;
  for (size_t i = 0; i + 1 < shape.size(); ++i) rows *= shape[i];
  return {rows, shape.back()};
}

int64_t blocks_in(int64_t size, int64_t block) {
  return block == kEntireDim ? 1 : ceil_div(size, block);
}

Shape grid_of(const Shape& shape, const QuantBlock& block) {
  const size_t rank = shape.size();
  return with_matrix(shape, blocks_in(shape[rank - 2], block.rows),
                     blocks_in(shape[rank - 1], block.cols));
}

std::string in_blocks(std::string_view name, const Shape& shape, const QuantBlock& block) {
  return fmt::format("{} {} in blocks of [{}, {}]", quote(name), to_string(shape),
                     size_text(block.rows), size_text(block.cols));
}

DType scale_dtype_of(DType stored) { return stored == DType::U8 ? DType::F8_E8M0 : stored; }

}  // namespace weightloom
