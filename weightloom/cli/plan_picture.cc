#include "weightloom/cli/plan_picture.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <string_view>
#include <unordered_map>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "weightloom/cli/placement_text.h"

namespace weightloom::cli {
namespace {

constexpr size_t kMostBoxes = 64;   // of one key, or of one piece from one key
constexpr size_t kMostRuns = 2000;  // of all files

std::string placement_of(const Spread* spread, size_t whole) {
  return spread == nullptr ? "" : placement_text(spread->shardings[whole]);
}

/// Equal for targets of one pattern.
std::string pattern_key(const CopyProgram& whole, const ProgramTarget& target,
                        const std::string& placement) {
  std::string key = fmt::format("{}\n{} {}\n{}", number_name(target.name).skeleton,
                                to_string(target.dtype), to_string(target.shape), placement);
  for (std::string_view name : source_names(whole, target)) {
    key += '\n';
    key += number_name(name).skeleton;
  }
  return key;
}

/// Adds names to the folded name of their skeleton, one of `to`.
void fold(std::vector<FoldedName>& to, std::vector<std::string>& skeletons, std::string_view name) {
  const NumberedName numbered = number_name(name);
  const auto known = std::ranges::find(skeletons, numbered.skeleton);
  const auto at = static_cast<size_t>(known - skeletons.begin());
  if (known == skeletons.end()) {
    skeletons.push_back(numbered.skeleton);
    to.emplace_back(numbered.skeleton);
  }
  to[at].add(numbered.numbers);
}

/// The names of sources, as they are told of one key.
std::string names_of(const CopyProgram& whole, std::span<const SourceId> sources) {
  std::vector<std::string_view> names;
  for (const SourceId source : sources) {
    names.push_back(whole.sources()[static_cast<size_t>(source)].name);
  }
  return fmt::format("{}", fmt::join(names, ", "));
}

/// The sources in files of a key, which is itself one or is computed from them.
std::vector<SourceId> stored_of_key(const CopyProgram& whole, SourceId key) {
  const ProgramSource& source = whole.sources()[static_cast<size_t>(key)];
  if (!source.is_computed()) return {key};
  ProgramTarget all;  // of the node's inputs, as if one target were made of them
  for (const ProgramTarget& input : whole.nodes()[static_cast<size_t>(source.node)].inputs) {
    all.regions.insert(all.regions.end(), input.regions.begin(), input.regions.end());
  }
  return stored_sources(whole, all);
}

KeyPicture key_of(const CopyProgram& whole, SourceId key) {
  const ProgramSource& source = whole.sources()[static_cast<size_t>(key)];
  KeyPicture picture{source.name, source.dtype, source.shape, source.size_bytes, {}, "", {}};
  const std::vector<SourceId> stored = stored_of_key(whole, key);
  for (const SourceId from : stored) {
    const int32_t file = whole.sources()[static_cast<size_t>(from)].file;
    if (std::ranges::count(picture.files, file) == 0) picture.files.push_back(file);
  }
  if (source.is_computed()) {
    const bool encodes = whole.nodes()[static_cast<size_t>(source.node)].encodes;
    picture.computed =
        fmt::format("{} from {}", encodes ? "encoded" : "decoded", names_of(whole, stored));
  }
  return picture;
}

/// The sources of a target, each once, in order of first use.
std::vector<SourceId> sources_of(const ProgramTarget& target) {
  std::vector<SourceId> sources;
  for (const Region& region : target.regions) {
    if (region.is_pad() || std::ranges::count(sources, region.source) > 0) continue;
    sources.push_back(region.source);
  }
  return sources;
}

/// Boxes by the key that they are of, or come from.
using BoxesOfKeys = std::map<int32_t, std::vector<Box>>;

/// What `target` takes of each source, and which part of it each source makes.
struct Ways {
  BoxesOfKeys taken;  // by source
  BoxesOfKeys made;   // by source, kPad for padding
};

Ways ways_of(const CopyProgram& program, const ProgramTarget& target) {
  Ways ways;
  for (const Region& region : target.regions) {
    const RegionType type = program.type_of(target, region);
    ways.made[region.source].push_back(
        box_of(region, RegionSide::target, type.target_bytes(), target.dtype, target.shape));
    if (region.is_pad()) continue;
    const ProgramSource& source = program.sources()[static_cast<size_t>(region.source)];
    ways.taken[region.source].push_back(
        box_of(region, RegionSide::source, type.source_bytes(), source.dtype, source.shape));
  }
  return ways;
}

void add_stretch(std::vector<KeyStretch>& stretches, Box box, int64_t rank) {
  const auto known = std::ranges::find(stretches, box, &KeyStretch::box);
  if (known != stretches.end()) {
    known->ranks.push_back(rank);
  } else {
    stretches.push_back({std::move(box), {rank}});
  }
}

int64_t bytes_of(std::span<const Box> boxes) {
  int64_t bytes = 0;
  for (const Box& box : boxes) bytes += box.bytes;
  return bytes;
}

/// Runs of one pattern's tensors; those shorter than `least` bytes join into one of several.
std::vector<FileRun> joined_runs(std::vector<FileRun> runs, int64_t least) {
  std::ranges::sort(runs, {}, &FileRun::begin_bytes);
  std::vector<FileRun> result;
  for (FileRun run : runs) {
    if (run.end_bytes - run.begin_bytes < least) run.pattern = -1;
    if (!result.empty() && result.back().pattern == run.pattern) {
      result.back().end_bytes = run.end_bytes;
    } else {
      result.push_back(run);
    }
  }
  return result;
}

}  // namespace

PlanPainter::PlanPainter(const CopyProgram& whole, const Spread* spread)
    : whole_(whole), spread_(spread) {
  std::unordered_map<std::string, size_t> places;
  std::vector<std::vector<std::string>> skeletons;  // of each pattern's sources
  for (size_t i = 0; i < whole.targets().size(); ++i) {
    const ProgramTarget& target = whole.targets()[i];
    const std::string placement = placement_of(spread, i);
    const auto [place, is_new] =
        places.emplace(pattern_key(whole, target, placement), picture_.patterns.size());
    const NumberedName name = number_name(target.name);
    if (is_new) {
      picture_.patterns.push_back({FoldedName(name.skeleton),
                                   {},
                                   target.name,
                                   target.dtype,
                                   target.shape,
                                   0,
                                   placement,
                                   {},
                                   {},
                                   0,
                                   0});
      for (const SourceId source : sources_of(target)) {
        picture_.patterns.back().keys.push_back(key_of(whole, source));
      }
      first_wholes_.push_back(i);
      skeletons.emplace_back();
    }
    TensorPattern& pattern = picture_.patterns[place->second];
    pattern.name.add(name.numbers);
    pattern.bytes += target.size_bytes;
    for (std::string_view source : source_names(whole, target)) {
      fold(pattern.sources, skeletons[place->second], source);
    }
    patterns_.push_back(place->second);
  }
  draw_files();
}

void PlanPainter::draw_files() {
  std::vector<int32_t> users(whole_.sources().size(), -1);
  for (size_t i = 0; i < whole_.targets().size(); ++i) {
    for (const SourceId source : stored_sources(whole_, whole_.targets()[i])) {
      users[static_cast<size_t>(source)] = static_cast<int32_t>(patterns_[i]);
    }
  }
  for (const ProgramFile& file : whole_.files()) {
    picture_.files.push_back({file.name, file.status.size_bytes, {}, {}});
  }
  for (size_t i = 0; i < users.size(); ++i) {
    const ProgramSource& source = whole_.sources()[i];
    if (source.is_computed()) continue;
    picture_.files[static_cast<size_t>(source.file)].runs.push_back(
        {source.offset_bytes, source.offset_bytes + source.size_bytes, users[i]});
  }
  const auto most = static_cast<int64_t>(kMostRuns / std::max<size_t>(picture_.files.size(), 8));
  for (FilePicture& file : picture_.files) {
    file.runs = joined_runs(std::move(file.runs), file.size_bytes / std::max<int64_t>(most, 1));
  }
}

void PlanPainter::add(int64_t rank, const CopyProgram& program, std::span<const size_t> wholes,
                      const Cost& cost) {
  picture_.ranks.push_back(rank);
  for (FilePicture& file : picture_.files) file.rank_bytes.push_back(0);
  for (size_t i = 0; i < program.targets().size(); ++i) {
    const ProgramTarget& target = program.targets()[i];
    TensorPattern& pattern = picture_.patterns[patterns_[wholes[i]]];
    pattern.bytes_read += cost.target_bytes_read[i];
    pattern.bytes_needed += count_needed(program, target);
    if (first_wholes_[patterns_[wholes[i]]] == wholes[i]) draw(rank, program, wholes[i], target);
  }
}

/// Bytes that the target takes, which are the files' and the rank's added last.
int64_t PlanPainter::count_needed(const CopyProgram& program, const ProgramTarget& target) {
  const std::vector<int64_t> needed = needed_by_file(program, target);
  for (size_t i = 0; i < needed.size(); ++i) picture_.files[i].rank_bytes.back() += needed[i];
  return std::accumulate(needed.begin(), needed.end(), int64_t{0});
}

void PlanPainter::draw(int64_t rank, const CopyProgram& program, size_t whole,
                       const ProgramTarget& target) {
  TensorPattern& pattern = picture_.patterns[patterns_[whole]];
  const std::vector<SourceId> sources = sources_of(whole_.targets()[whole]);
  Ways ways = ways_of(program, target);
  for (auto& [source, boxes] : ways.taken) {
    const auto key = static_cast<size_t>(std::ranges::find(sources, source) - sources.begin());
    for (Box& box : joined(std::move(boxes), kMostBoxes)) {
      add_stretch(pattern.keys[key].stretches, std::move(box), rank);
    }
  }
  if (spread_ != nullptr) {
    const int64_t owner = owner_of(spread_->shardings[whole], spread_->meshes, rank);
    const auto owned = std::ranges::find_if(
        pattern.pieces, [owner](const RankPiece& piece) { return piece.ranks.front() == owner; });
    if (owned != pattern.pieces.end()) {
      owned->ranks.push_back(rank);
      return;
    }
  }
  RankPiece piece{{rank}, target.shape, target.size_bytes, bytes_of(ways.made[kPad]), {}};
  for (auto& [source, boxes] : ways.made) {
    const auto key = std::ranges::find(sources, source) - sources.begin();
    for (Box& box : joined(std::move(boxes), kMostBoxes)) {
      piece.stretches.push_back({std::move(box), source == kPad ? -1 : static_cast<int32_t>(key)});
    }
  }
  pattern.pieces.push_back(std::move(piece));
}

PlanPicture PlanPainter::finish() && { return std::move(picture_); }

}  // namespace weightloom::cli
