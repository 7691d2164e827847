// Tiles that several ranks hold in short runs: each rank packs what it has of them, one message a
// pair of ranks and batch, and the writers put the tiles together: a batch is put together and
// written, on a thread of its own, while the next one is on its way.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <vector>

#include "weightloom/comm/process_group.h"
#include "weightloom/comm/save_division_internal.h"
#include "weightloom/execute/executor.h"
#include "weightloom/execute/progress.h"
#include "weightloom/execute/work_buffer_internal.h"

namespace weightloom {

/// What a rank brings to an exchange. Borrows all.
struct ExchangeSide {
  const CopyProgram& program;
  const SourceHolders& holders;
  std::span<const std::span<const std::byte>> sources;  // of the program; those that are here
  int64_t rank = 0;
  const RunOptions& run;
};

/// Exchanges shared tiles, a batch at a time, and delivers those that this rank writes. Whatever
/// goes wrong here is kept until all batches are exchanged, so that no other rank waits.
/// Thread safety: none.
class TileExchange {
 public:
  explicit TileExchange(const ExchangeSide& side);

  /// A collective call. The messages of a rank take at most `batch_bytes` at once, unless a tile's
  /// alone take more.
  /// Errors: what making and delivering tiles throws; RankError at once.
  void run(ProcessGroup& group, std::span<const SharedTile> tiles, int64_t batch_bytes,
           TileSink& sink);

  int64_t bytes_sent() const noexcept { return bytes_sent_; }
  /// Messages and tiles of this rank at once, at most.
  int64_t peak_bytes() const noexcept { return peak_bytes_; }
  /// Target → values that casts made infinite.
  const std::map<int32_t, int64_t>& not_finite() const noexcept { return not_finite_; }

 private:
  class Run;

  void note_peak();

  const ExchangeSide& side_;
  std::array<WorkBuffer, 2> messages_;  // of the batch that is written, and of the next
  std::vector<WorkBuffer> tiles_;       // one a thread
  int64_t bytes_sent_ = 0;
  int64_t peak_bytes_ = 0;
  std::map<int32_t, int64_t> not_finite_;
};

}  // namespace weightloom
