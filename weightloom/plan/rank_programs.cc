#include "weightloom/plan/rank_programs.h"

#include <algorithm>
#include <map>
#include <optional>
#include <utility>

#include <fmt/format.h>

#include "weightloom/layout/coalesce.h"
#include "weightloom/sharding/local_parts.h"

namespace weightloom {
namespace {

/// Shape of a tensor whose elements are its bytes: the last dim counts bytes.
Shape byte_shape(const Shape& shape, DType dtype) {
  Shape bytes = shape;
  if (bytes.empty()) bytes.push_back(1);
  bytes.back() = bytes.back() * bits(dtype) / 8;
  return bytes;
}

bool is_whole(const Segments& segments, int64_t rows) { return segments == whole_dim(rows); }

/// The bytes of a part: as its elements, the last dim in bytes.
LocalPart byte_part(LocalPart part, DType dtype) {
  if (part.empty()) part.push_back(whole_dim(1));
  for (Segment& segment : part.back()) {
    segment.begin = segment.begin * bits(dtype) / 8;
    segment.size = segment.size * bits(dtype) / 8;
  }
  return part;
}

/// Why the part of a tensor cannot be said in bytes; "" if it can.
std::string_view fault_in_bytes(const LocalPart& part, const Shape& shape, DType dtype) {
  const int width = bits(dtype);
  const bool pads = std::ranges::any_of(part, [](const Segments& segments) {
    return std::ranges::any_of(segments, &Segment::is_pad);
  });
  if (pads && dtype == DType::F8_E8M0) return "padding has no all-zero encoding";
  if (width >= 8 || shape.empty()) return "";
  if (shape.back() * width % 8 != 0) return "a row does not fill whole bytes";
  const bool on_bytes = std::ranges::all_of(part.back(), [width](const Segment& segment) {
    return segment.begin * width % 8 == 0 && segment.size * width % 8 == 0;
  });
  return on_bytes ? "" : "a cut falls inside a byte";
}

/// The rows of the outermost dim first, by bisection, where they are one stretch.
Layout rows_of(const ProgramTarget& target, const Shape& bytes, Segments& outermost) {
  const bool is_stretch = outermost.size() == 1 && !outermost[0].is_pad;
  if (!is_stretch || is_whole(outermost, bytes[0])) {
    return Layout::unchecked(bytes, target.regions);
  }
  const int64_t row = bytes[0] == 0 ? 0 : target.size_bytes / bytes[0];
  const int64_t begin = outermost[0].begin * row;
  Shape shape = bytes;
  shape[0] = outermost[0].size;
  std::vector<Region> regions = clip_target(target, begin, begin + shape[0] * row);
  for (Region& region : regions) region.target_offset -= begin;
  outermost = whole_dim(shape[0]);
  return Layout::unchecked(std::move(shape), std::move(regions));
}

ProgramTarget cut(const ProgramTarget& target, const LocalPart& part) {
  ProgramTarget local;
  local.name = target.name;
  local.dtype = target.dtype;
  local.shape = local_shape(part);
  local.size_bytes = checked_bytes(local.dtype, local.shape).value_or(0);
  LocalPart bytes = byte_part(part, target.dtype);
  Layout rows = rows_of(target, byte_shape(target.shape, target.dtype), bytes.front());
  local.regions = coalesce(select(rows, bytes).regions());
  local.disjoint_hulls = hulls_are_disjoint(local.regions);
  local.has_casts = target.has_casts;
  return local;
}

/// Targets of several ranks that have the same rows of one whole target get a number in common.
class Families {
 public:
  /// `index`: the target's place; `whole`: what it is a part of.
  void add(size_t index, size_t whole, const LocalPart& part) {
    members_[{whole, part.empty() ? Segments() : part.front()}].push_back(index);
  }
  /// Parts of the results of an encoder, of any rank, stay together.
  void add_encoded(size_t index, int32_t family, size_t wholes) {
    members_[{wholes + static_cast<size_t>(family), Segments()}].push_back(index);
  }

  void number(std::vector<ProgramTarget>& targets) const {
    int32_t next = 0;
    for (const auto& [rows, members] : members_) {
      if (members.size() < 2) continue;
      for (const size_t member : members) targets[member].family = next;
      ++next;
    }
  }

 private:
  struct Less {
    using Key = std::pair<size_t, Segments>;
    bool operator()(const Key& a, const Key& b) const {
      if (a.first != b.first) return a.first < b.first;
      return std::ranges::lexicographical_compare(
          a.second, b.second, [](const Segment& x, const Segment& y) {
            return std::tie(x.begin, x.size, x.is_pad) < std::tie(y.begin, y.size, y.is_pad);
          });
    }
  };
  std::map<std::pair<size_t, Segments>, std::vector<size_t>, Less> members_;
};

/// Proves one sharding of one shape and dtype; what was proved once holds again.
class SpreadCheck {
 public:
  explicit SpreadCheck(const Spread& spread) : spread_(spread), ranks_(spread.meshes.size()) {
    for (int64_t rank = 0; rank < ranks_; ++rank) {
      sources_.push_back(static_cast<SourceId>(rank));
    }
  }

  void check(const ProgramTarget& target, const Sharding& sharding) {
    const std::string fault = fault_of(target, sharding);
    if (fault.empty()) return;
    findings_.push_back({Severity::error, code_, target.name, "",
                         fmt::format("'{}' {} {}: {}", target.name, to_string(target.dtype),
                                     to_string(target.shape), fault)});
  }

  std::vector<Finding> findings() && { return std::move(findings_); }

 private:
  std::string fault_of(const ProgramTarget& target, const Sharding& sharding) {
    for (const Proved& known : proved_) {
      if (known.shape == target.shape && known.dtype == target.dtype &&
          *known.sharding == sharding) {
        code_ = known.code;
        return known.fault;
      }
    }
    code_ = "bad_sharding";
    std::string fault;
    try {
      fault = find_fault(target, sharding);
    } catch (const Error& error) {
      if (error.code() == ErrorCode::checkpoint) code_ = "bad_partition";
      fault = error.what();
    }
    proved_.push_back({target.shape, target.dtype, &sharding, code_, fault});
    return fault;
  }

  std::string find_fault(const ProgramTarget& target, const Sharding& sharding) {
    for (int64_t rank = 0; rank < ranks_; ++rank) {
      const auto part = local_part(sharding, spread_.meshes, target.shape, rank);
      const std::string_view fault = part ? fault_in_bytes(*part, target.shape, target.dtype) : "";
      if (fault.empty()) continue;
      code_ = "inside_byte";
      return fmt::format("{} (rank {})", fault, rank);
    }
    if (!spread_.is_part) merged(sharding, spread_.meshes, target.shape, sources_);
    return "";
  }

  struct Proved {
    Shape shape;
    DType dtype;
    const Sharding* sharding;
    std::string code;
    std::string fault;
  };

  const Spread& spread_;
  const int64_t ranks_;
  std::vector<SourceId> sources_;  // one of each rank
  std::vector<Proved> proved_;
  std::string code_;
  std::vector<Finding> findings_;
};

}  // namespace

std::vector<Finding> check_spread(const CopyProgram& whole, const Spread& spread) {
  SpreadCheck check(spread);
  for (size_t i = 0; i < whole.targets().size(); ++i) {
    check.check(whole.targets()[i], spread.shardings[i]);
  }
  return std::move(check).findings();
}

RankPrograms program_of_ranks(const CopyProgram& whole, const Spread& spread,
                              std::span<const int64_t> ranks) {
  RankPrograms result;
  std::vector<ProgramTarget> targets;
  Families families;
  for (const int64_t rank : ranks) {
    LocalParts parts(spread.meshes, rank);
    for (size_t i = 0; i < whole.targets().size(); ++i) {
      const ProgramTarget& target = whole.targets()[i];
      const auto& part = parts.of(spread.shardings[i], target.shape);
      if (!part) continue;
      if (target.family >= 0) {
        families.add_encoded(targets.size(), target.family, whole.targets().size());
      } else if (ranks.size() > 1) {
        families.add(targets.size(), i, *part);
      }
      targets.push_back(cut(target, *part));
      result.ranks.push_back(rank);
      result.wholes.push_back(i);
    }
  }
  families.number(targets);
  result.program = whole.with_targets(std::move(targets));
  return result;
}

}  // namespace weightloom
