#include "weightloom/execute/executor.h"

#include <algorithm>
#include <map>
#include <mutex>
#include <vector>

#include "weightloom/base/workers.h"
#include "weightloom/execute/compute_internal.h"
#include "weightloom/execute/kernels_internal.h"
#include "weightloom/execute/source_files_internal.h"
#include "weightloom/execute/work_buffer_internal.h"

namespace weightloom {
namespace {

size_t as_size(int64_t n) { return static_cast<size_t>(n); }

/// A worker's buffer holds the tile itself, if lent, then the staging.
class Execution {
 public:
  Execution(const Syscalls& calls, const CopyProgram& program, std::span<const Tile> tiles,
            const ScheduleLimits& limits, TileSink& sink, const RunOptions& options)
      : program_(program),
        tiles_(tiles),
        limits_(limits),
        sink_(sink),
        options_(options),
        files_(calls, program.files()),
        buffers_(static_cast<size_t>(std::max(options.threads, 1))) {}

  RunStatistics run(size_t first) {
    for (const Tile& tile : tiles_) progress_.bytes_total += tile.made_bytes();
    for (const Tile& tile : tiles_.first(first)) progress_.bytes_done += tile.made_bytes();
    // The stop is seen where a tile is abandoned: whoever waits for that tile must hear of it.
    for_each_item(options_.threads, first, tiles_.size(), {},
                  [this](size_t worker, size_t item) { make_or_abandon(worker, item); });
    for (const WorkBuffer& buffer : buffers_) {
      statistics_.peak_working_bytes += buffer.size_bytes();
    }
    return statistics_;
  }

 private:
  void make_or_abandon(size_t worker, size_t item) {
    try {
      if (options_.stop.stop_requested()) {
        throw Error(ErrorCode::cancelled, "cancelled by the caller");
      }
      make(buffers_[worker], item);
    } catch (...) {
      sink_.abandon();
      throw;
    }
  }

  void make(WorkBuffer& buffer, size_t index) {
    const Tile& tile = tiles_[index];
    const TileReads reads = read_tile(program_, tile, limits_);
    std::span<std::byte> memory = sink_.memory_for(tile);
    // A lent tile lies in its pages as it will lie in the pages of its spaces.
    const size_t phase = memory.empty() ? WorkBuffer::phase_of(tile.parts.front().begin_bytes) : 0;
    const size_t lent = memory.empty() ? phase + as_size(tile.size_bytes) : 0;
    const std::span<std::byte> work = buffer.take(lent + as_size(reads.staging_bytes));
    if (memory.empty()) memory = work.first(lent).subspan(phase);
    std::map<int32_t, int64_t> lost;
    fill(reads, memory, work.subspan(lent), lost);
    sink_.deliver(index, tile, memory);
    account(tile, reads, lost);
  }

  /// Makes a tile, or an input of a computation. Adds to `lost` what casts made infinite and codecs
  /// infinite or NaN, by target.
  void fill(const TileReads& reads, std::span<std::byte> memory, std::span<std::byte> staging,
            std::map<int32_t, int64_t>& lost) {
    read_direct(reads, memory);
    for (const StagedGroup& group : reads.staged) read_staged(group, staging, memory, lost);
    for (const Region& fill : reads.fills) fill_region(fill, memory.data());
    for (const Computation& computation : reads.computations) {
      for (const OperandReads& input : computation.inputs) {
        fill(input.reads, staging.subspan(as_size(input.at_bytes), as_size(input.size_bytes)),
             staging.subspan(as_size(input.staging_at_bytes)), lost);
      }
      const ProgramNode& node = program_.nodes()[as_size(computation.node)];
      const int64_t count = compute(node, computation, staging.data(), memory.data());
      if (count > 0) lost[computation.target] += count;
    }
  }

  /// Reads that follow one another in a file become one call, wherever they land.
  void read_direct(const TileReads& reads, std::span<std::byte> memory) {
    std::vector<std::span<std::byte>> spans;
    const File* file = nullptr;
    for (size_t i = 0; i < reads.direct.size();) {
      const DirectRead& first = reads.direct[i];
      if (i == 0 || first.file != reads.direct[i - 1].file) file = &files_.get(first.file);
      int64_t end = first.file_offset;
      spans.clear();
      for (; i < reads.direct.size(); ++i) {
        const DirectRead& read = reads.direct[i];
        if (read.file != first.file || read.file_offset != end) break;
        spans.push_back(memory.subspan(as_size(read.tile_offset), as_size(read.size_bytes)));
        end += read.size_bytes;
      }
      file->read_at(std::span<const std::span<std::byte>>(spans), first.file_offset);
    }
  }

  void read_staged(const StagedGroup& group, std::span<std::byte> staging,
                   std::span<std::byte> memory, std::map<int32_t, int64_t>& lost) {
    const File& file = files_.get(group.file);
    for (const StagingRead& read : group.reads) {
      file.read_at(staging.subspan(as_size(read.staging_offset), as_size(read.size_bytes)),
                   read.file_offset);
    }
    for (const auto& [region, type, target] : group.copies) {
      if (!type.casts()) {
        copy_region(region, staging.data(), memory.data());
        continue;
      }
      const int64_t count = cast_region(region, type.from, type.to, staging.data(), memory.data());
      if (count > 0) lost[target] += count;
    }
  }

  void account(const Tile& tile, const TileReads& reads, const std::map<int32_t, int64_t>& lost) {
    const std::lock_guard lock(mutex_);
    for (const auto& [target, count] : lost) statistics_.not_finite[target] += count;
    statistics_.bytes_read += reads.bytes_read;
    statistics_.bytes_written += tile.made_bytes();
    progress_.bytes_done += tile.made_bytes();
    progress_.tensor = program_.targets()[static_cast<size_t>(tile.pieces.front().target)].name;
    if (options_.progress) options_.progress(progress_);
  }

  const CopyProgram& program_;
  std::span<const Tile> tiles_;
  const ScheduleLimits& limits_;
  TileSink& sink_;
  const RunOptions& options_;
  SourceFiles files_;
  std::vector<WorkBuffer> buffers_;
  std::mutex mutex_;
  Progress progress_;
  RunStatistics statistics_;
};

}  // namespace

RunStatistics execute(const Syscalls& calls, const CopyProgram& program,
                      std::span<const Tile> tiles, size_t first, const ScheduleLimits& limits,
                      TileSink& sink, const RunOptions& options) {
  return Execution(calls, program, tiles, limits, sink, options).run(first);
}

}  // namespace weightloom
