#include "weightloom/safetensors/rank_files.h"

#include <charconv>

#include <fmt/format.h>

namespace weightloom {
namespace {

/// Takes `text` off the front of `rest`.
bool skip(std::string_view& rest, std::string_view text) {
  if (!rest.starts_with(text)) return false;
  rest.remove_prefix(text.size());
  return true;
}

bool skip_number(std::string_view& rest) {
  size_t digits = 0;
  while (digits < rest.size() && rest[digits] >= '0' && rest[digits] <= '9') ++digits;
  rest.remove_prefix(digits);
  return digits > 0;
}

}  // namespace

std::string rank_file_name(int64_t rank, int64_t ranks) {
  return fmt::format("rank-{:05d}-of-{:05d}.safetensors", rank, ranks);
}

std::optional<int64_t> rank_of_file(std::string_view name, int64_t ranks) {
  std::string_view rest = name;
  int64_t rank = 0;
  if (!skip(rest, "rank-")) return std::nullopt;
  const auto [stop, error] = std::from_chars(rest.data(), rest.data() + rest.size(), rank);
  if (error != std::errc() || rank < 0 || rank >= ranks) return std::nullopt;
  return name == rank_file_name(rank, ranks) ? std::optional(rank) : std::nullopt;
}

bool is_dcp_shard_name(std::string_view name) {
  return skip(name, "shard-") && skip_number(name) && skip(name, "-model-") && skip_number(name) &&
         skip(name, "-of-") && skip_number(name) && name == ".safetensors";
}

}  // namespace weightloom
