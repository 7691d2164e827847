#include "weightloom/sharding/mesh.h"

#include <algorithm>
#include <charconv>
#include <limits>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "weightloom/base/checked.h"
#include "weightloom/base/error.h"

namespace weightloom {
namespace {

constexpr std::string_view kMeshForm =
    "write axes outermost first, as in 'fsdp=4,tp=2', or several meshes, as in "
    "'dense: fsdp=8,tp=4; expert: ep=32'";

[[noreturn]] void refuse(const std::string& message) {
  throw Error(ErrorCode::usage, message, std::string(kMeshForm));
}

std::string_view trimmed(std::string_view text) {
  const size_t begin = text.find_first_not_of(' ');
  if (begin == std::string_view::npos) return {};
  return text.substr(begin, text.find_last_not_of(' ') - begin + 1);
}

std::vector<std::string_view> pieces_of(std::string_view text, char separator) {
  std::vector<std::string_view> pieces;
  while (true) {
    const size_t end = text.find(separator);
    pieces.push_back(trimmed(text.substr(0, end)));
    if (end == std::string_view::npos) return pieces;
    text.remove_prefix(end + 1);
  }
}

bool is_name(std::string_view text) {
  const auto fits = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
  };
  return !text.empty() && std::ranges::all_of(text, fits);
}

MeshAxis parse_axis(std::string_view text) {
  const size_t equals = text.find('=');
  if (equals == std::string_view::npos) refuse(fmt::format("'{}' is no axis of a mesh", text));
  const std::string_view number = trimmed(text.substr(equals + 1));
  MeshAxis axis{std::string(trimmed(text.substr(0, equals))), 0};
  const std::string digits(number);
  const char* end = digits.data() + digits.size();
  const auto [stop, error] = std::from_chars(digits.data(), end, axis.size);
  if (error != std::errc() || stop != end) {
    refuse(fmt::format("'{}': '{}' is no size of an axis", text, number));
  }
  return axis;
}

NamedMesh parse_named(std::string_view text) {
  const size_t colon = text.find(':');
  if (colon == std::string_view::npos) refuse(fmt::format("'{}' is a mesh without a name", text));
  const std::string_view name = trimmed(text.substr(0, colon));
  if (!is_name(name)) refuse(fmt::format("'{}' is no name of a mesh", name));
  return {std::string(name), Mesh::parse(text.substr(colon + 1))};
}

}  // namespace

Mesh Mesh::make(std::vector<MeshAxis> axes) {
  Mesh mesh;
  for (size_t i = 0; i < axes.size(); ++i) {
    const auto& [name, size] = axes[i];
    if (!is_name(name)) refuse(fmt::format("'{}' is no name of an axis", name));
    const auto before = axes.begin() + static_cast<std::ptrdiff_t>(i);
    if (std::ranges::find(axes.begin(), before, name, &MeshAxis::name) != before) {
      refuse(fmt::format("the mesh has two axes called '{}'", name));
    }
    const auto ranks = size < 1 ? std::nullopt : checked_mul(mesh.size_, size);
    if (!ranks || *ranks > std::numeric_limits<int32_t>::max()) {
      refuse(fmt::format("axis '{}' has size {}: a mesh has 1 to 2147483647 ranks", name, size));
    }
    mesh.size_ = *ranks;
  }
  mesh.axes_ = std::move(axes);
  return mesh;
}

Mesh Mesh::parse(std::string_view text) {
  std::vector<MeshAxis> axes;
  for (const std::string_view piece : pieces_of(text, ',')) axes.push_back(parse_axis(piece));
  return make(std::move(axes));
}

std::optional<size_t> Mesh::find(std::string_view name) const noexcept {
  const auto found = std::ranges::find(axes_, name, &MeshAxis::name);
  if (found == axes_.end()) return std::nullopt;
  return static_cast<size_t>(found - axes_.begin());
}

std::vector<int64_t> Mesh::coordinate(int64_t rank) const {
  std::vector<int64_t> at(axes_.size());
  for (size_t i = axes_.size(); i-- > 0;) {
    at[i] = rank % axes_[i].size;
    rank /= axes_[i].size;
  }
  return at;
}

int64_t Mesh::coordinate(int64_t rank, size_t place) const noexcept {
  for (size_t i = axes_.size(); --i > place;) rank /= axes_[i].size;
  return rank % axes_[place].size;
}

int64_t Mesh::rank_at(std::span<const int64_t> coordinate) const noexcept {
  int64_t rank = 0;
  for (size_t i = 0; i < axes_.size(); ++i) rank = rank * axes_[i].size + coordinate[i];
  return rank;
}

std::vector<int64_t> Mesh::group_of(int64_t rank, std::span<const size_t> places) const {
  const std::vector<int64_t> mine = coordinate(rank);
  std::vector<int64_t> group;
  for (int64_t other = 0; other < size_; ++other) {
    const std::vector<int64_t> theirs = coordinate(other);
    bool is_member = true;
    for (size_t i = 0; i < axes_.size(); ++i) {
      is_member =
          is_member && (theirs[i] == mine[i] || std::ranges::find(places, i) != places.end());
    }
    if (is_member) group.push_back(other);
  }
  return group;
}

std::string to_string(const Mesh& mesh) {
  std::vector<std::string> axes;
  for (const auto& [name, size] : mesh.axes()) axes.push_back(fmt::format("{}={}", name, size));
  return fmt::format("{}", fmt::join(axes, ","));
}

MeshSet MeshSet::make(std::vector<NamedMesh> meshes) {
  if (meshes.empty()) refuse("there is no mesh");
  for (size_t i = 1; i < meshes.size(); ++i) {
    const auto before = meshes.begin() + static_cast<std::ptrdiff_t>(i);
    if (std::ranges::find(meshes.begin(), before, meshes[i].name, &NamedMesh::name) != before) {
      refuse(fmt::format("two meshes are called '{}'", meshes[i].name));
    }
    if (meshes[i].mesh.size() != meshes[0].mesh.size()) {
      refuse(fmt::format("mesh '{}' has {} ranks, mesh '{}' has {}: both are the same ranks",
                         meshes[0].name, meshes[0].mesh.size(), meshes[i].name,
                         meshes[i].mesh.size()));
    }
  }
  MeshSet set;
  set.meshes_ = std::move(meshes);
  return set;
}

MeshSet MeshSet::parse(std::string_view text) {
  if (text.find_first_of(":;") == std::string_view::npos) return MeshSet(Mesh::parse(text));
  std::vector<NamedMesh> meshes;
  for (const std::string_view piece : pieces_of(text, ';')) meshes.push_back(parse_named(piece));
  return make(std::move(meshes));
}

const Mesh* MeshSet::find(std::string_view name) const noexcept {
  if (name.empty()) return &meshes_.front().mesh;
  const auto found = std::ranges::find(meshes_, name, &NamedMesh::name);
  return found == meshes_.end() ? nullptr : &found->mesh;
}

std::string to_string(const MeshSet& meshes) {
  std::vector<std::string> texts;
  for (const auto& [name, mesh] : meshes.meshes()) {
    texts.push_back(name.empty() ? to_string(mesh) : fmt::format("{}: {}", name, to_string(mesh)));
  }
  return fmt::format("{}", fmt::join(texts, "; "));
}

}  // namespace weightloom
