#include "weightloom/mapping/operation.h"

#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include "weightloom/mapping/operation_internal.h"

namespace weightloom {

std::optional<ListLength> ConversionOperation::list_length(const ModelConfig&) const {
  return std::nullopt;
}

OnBlocks ConversionOperation::on_blocks(const std::vector<Slot>&, const BlockShape&,
                                        const OperationContext&) const {
  refuse_operation("companion_refused",
                   fmt::format("{}: what it does to whole blocks is not known", name()));
}

void refuse_operation(std::string_view code, const std::string& message) {
  throw Error(ErrorCode::plan, message, "",
              {{Severity::error, std::string(code), "", "", message}});
}

namespace internal {
namespace {

class Identity final : public ConversionOperation {
 public:
  std::string name() const override { return "Identity"; }
  std::vector<Slot> apply(std::vector<Slot> slots, const OperationContext&) const override {
    return slots;
  }
  OperationPtr reverse() const override { return make_identity(); }
  std::string to_json() const override { return R"({"op": "Identity"})"; }
};

}  // namespace

OperationPtr make_identity() { return std::make_shared<Identity>(); }

std::vector<int64_t> values_of(std::string_view operation, const std::vector<ConfigNumber>& numbers,
                               const ModelConfig& config) {
  std::vector<int64_t> values;
  for (const ConfigNumber& number : numbers) {
    const auto value = number.value(config);
    if (!value) {
      refuse_operation("operation_refused", fmt::format("{}: config.json gives no number for '{}'",
                                                        operation, number.text()));
    }
    values.push_back(*value);
  }
  return values;
}

void require_whole_blocks(std::string_view operation, const std::vector<int64_t>& part_sizes,
                          int dim, const BlockShape& block) {
  const int64_t size = block[static_cast<size_t>(dim)];
  for (size_t i = 0; i + 1 < part_sizes.size(); ++i) {
    if (size != kWholeDim && part_sizes[i] % size == 0) continue;
    refuse_operation(
        "companion_refused",
        size == kWholeDim
            ? fmt::format("{}: one scale is for the whole of dim {}, which is joined or cut there",
                          operation, dim)
            : fmt::format("{}: {} along dim {} are not whole blocks of {}", operation,
                          part_sizes[i], dim, size));
  }
}

void require_dim(std::string_view operation, int dim) {
  if (dim >= 0) return;
  throw Error(ErrorCode::mapping, fmt::format("{}: dim {} is negative", operation, dim));
}

int64_t size_of_dim(std::string_view operation, const Layout& layout, int dim) {
  if (dim >= layout.rank()) {
    refuse_operation("shape_mismatch", fmt::format("{}: there is no dim {} in a tensor of shape {}",
                                                   operation, dim, to_string(layout.shape())));
  }
  return layout.shape()[static_cast<size_t>(dim)];
}

Layout only_tensor(std::string_view operation, std::vector<Slot> slots) {
  if (slots.size() != 1) {
    refuse_operation("operation_refused",
                     fmt::format("{} takes one tensor, but was given {}", operation, slots.size()));
  }
  if (slots.front().items.size() != 1) {
    refuse_operation("operation_refused",
                     fmt::format("{} takes one tensor, but was given a list of {}", operation,
                                 slots.front().items.size()));
  }
  return std::move(slots.front().items.front());
}

void require_equal_shapes(std::string_view operation, const std::vector<Layout>& layouts,
                          int free_dim) {
  for (size_t i = 0; i < layouts.size(); ++i) {
    Shape wanted = layouts.front().shape();
    const Shape& shape = layouts[i].shape();
    if (free_dim >= 0 && shape.size() == wanted.size() && std::cmp_less(free_dim, wanted.size())) {
      wanted[static_cast<size_t>(free_dim)] = shape[static_cast<size_t>(free_dim)];
    }
    if (shape == wanted) continue;
    refuse_operation(
        "shape_mismatch",
        fmt::format("{}: tensor {} has shape {}, but tensor 0 has {}{}", operation, i,
                    to_string(shape), to_string(layouts.front().shape()),
                    free_dim < 0 ? "" : fmt::format(" (only dim {} may differ)", free_dim)));
  }
}

std::vector<Slot> slots_of_parts(std::vector<Layout> parts, const OperationContext& context) {
  std::vector<Slot> slots;
  for (auto& part : parts) {
    Slot slot;
    if (context.target_patterns.size() == parts.size()) {
      slot.pattern = context.target_patterns[slots.size()];
    }
    slot.items.push_back(std::move(part));
    slots.push_back(std::move(slot));
  }
  return slots;
}

std::string to_json_list(const std::vector<int64_t>& sizes) {
  return fmt::format("[{}]", fmt::join(sizes, ", "));
}

std::string to_json_list(const std::vector<ConfigNumber>& numbers) {
  std::vector<std::string> texts;
  for (const ConfigNumber& number : numbers) texts.push_back(number.to_json());
  return fmt::format("[{}]", fmt::join(texts, ", "));
}

std::string to_json_string(std::string_view text) {
  return nlohmann::json(text).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

std::string to_json_list(const std::vector<std::string>& texts) {
  std::vector<std::string> quoted;
  for (const auto& text : texts) quoted.push_back(to_json_string(text));
  return fmt::format("[{}]", fmt::join(quoted, ", "));
}

}  // namespace internal
}  // namespace weightloom
