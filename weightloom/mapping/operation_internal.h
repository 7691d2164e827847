// What the operations of this room share. Private to the room.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "weightloom/base/error.h"
#include "weightloom/mapping/operation.h"

namespace weightloom::internal {

/// Errors: mapping if `dim` is negative.
void require_dim(std::string_view operation, int dim);
/// Size of `dim`.
/// Errors: refuses if the layout has no such dim.
int64_t size_of_dim(std::string_view operation, const Layout& layout, int dim);
/// The one tensor of the one slot.
/// Errors: refuses if there is more.
Layout only_tensor(std::string_view operation, std::vector<Slot> slots);
/// Errors: refuses unless all have the first's shape, but for `free_dim` (-1: none).
void require_equal_shapes(std::string_view operation, const std::vector<Layout>& layouts,
                          int free_dim);
/// One slot per part, named by the target patterns where their number fits.
std::vector<Slot> slots_of_parts(std::vector<Layout> parts, const OperationContext& context);
/// What config.json says of each, in order.
/// Errors: refuses, naming the key, if it does not.
std::vector<int64_t> values_of(std::string_view operation, const std::vector<ConfigNumber>& numbers,
                               const ModelConfig& config);
/// Errors: refuses unless every part but the last is whole blocks along `dim`.
void require_whole_blocks(std::string_view operation, const std::vector<int64_t>& part_sizes,
                          int dim, const BlockShape& block);
/// Does nothing; what reorders a dim inside one whole block.
OperationPtr make_identity();
/// "[64, 32]" of sizes, in JSON.
std::string to_json_list(const std::vector<int64_t>& sizes);
std::string to_json_list(const std::vector<ConfigNumber>& numbers);
/// A JSON string.
std::string to_json_string(std::string_view text);
std::string to_json_list(const std::vector<std::string>& texts);

/// Each tensor of each slot through `function`, with the pattern of its slot.
template <typename Function>
std::vector<Slot> map_tensors(std::vector<Slot> slots, const Function& function) {
  for (auto& slot : slots) {
    for (auto& item : slot.items) item = function(std::move(item), slot.pattern);
  }
  return slots;
}

}  // namespace weightloom::internal
