#include "weightloom/execute/stream.h"

#include <condition_variable>
#include <deque>
#include <exception>
#include <functional>
#include <mutex>
#include <stop_token>
#include <thread>
#include <utility>

#include "weightloom/execute/cast_findings.h"
#include "weightloom/execute/executor.h"
#include "weightloom/execute/source_order_internal.h"
#include "weightloom/plan/schedule.h"

namespace weightloom {
namespace {

RunOptions with_half(const RunOptions& run) {
  RunOptions half = run;
  half.memory_budget_bytes /= 2;
  return half;
}

/// Members of a family would come all at once, and their memory with them.
ScheduleLimits one_by_one(ScheduleLimits limits) {
  limits.families_apart = true;
  return limits;
}

}  // namespace

/// The sink of the run. Each target that has bytes is a space of its own; spaces are begun in their
/// order, which is that of the tiles. So whoever waits to begin one waits for tensors that others
/// are making or the caller is to take, never for a tile that nobody makes.
class TensorStream::Run final : public TileSink {
 public:
  Run(const Syscalls& calls, const CopyProgram& program, const RunOptions& run)
      : calls_(calls),
        program_(program),
        options_(with_half(run)),
        capacity_bytes_(options_.memory_budget_bytes),
        limits_(one_by_one(limits_for(options_.memory_budget_bytes, options_.threads))),
        order_(targets_by_source(program)),
        spaces_(order_.size()),
        outer_stop_(options_.stop, [this] { stop(); }) {
    options_.stop = stop_.get_token();
    make_tiles();
    worker_ = std::jthread([this] { work(); });
  }

  ~Run() override { stop(); }

  std::span<std::byte> memory_for(const Tile& tile) override {
    const TilePart& part = tile.parts.front();
    const auto space = static_cast<size_t>(part.space);
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return is_over() || space < begun_ || can_begin(space); });
    if (is_over()) throw Error(ErrorCode::cancelled, "cancelled by the caller");
    if (space == begun_) begin_next();
    return spaces_[space].memory.bytes().subspan(static_cast<size_t>(part.begin_bytes),
                                                 static_cast<size_t>(part.size_bytes));
  }

  void deliver(size_t, const Tile& tile, std::span<const std::byte>) override {
    const std::lock_guard lock(mutex_);
    const auto space = static_cast<size_t>(tile.parts.front().space);
    for (const Piece& piece : tile.pieces) {
      spaces_[space].missing_bytes -= piece.end_bytes - piece.begin_bytes;
    }
    if (spaces_[space].missing_bytes > 0) return;
    ready_.push_back({order_[space], std::move(spaces_[space].memory)});
    changed_.notify_all();
  }

  void abandon() noexcept override {
    const std::lock_guard lock(mutex_);
    is_abandoned_ = true;
    changed_.notify_all();
  }

  void stop() noexcept {
    stop_.request_stop();
    const std::lock_guard lock(mutex_);
    ready_.clear();
    changed_.notify_all();
  }

  bool is_ready(std::chrono::milliseconds patience) {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, patience, [this] { return has_news(); });
  }

  std::optional<StreamedTensor> next() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return has_news(); });
    if (failure_) std::rethrow_exception(failure_);
    if (ready_.empty()) {
      if (given_ == program_.targets().size()) return std::nullopt;
      throw Error(ErrorCode::cancelled, "cancelled by the caller");
    }
    ++given_;
    StreamedTensor tensor = std::move(ready_.front());
    ready_.pop_front();
    held_bytes_ -= program_.targets()[tensor.target].size_bytes;
    changed_.notify_all();
    return tensor;
  }

  std::vector<Finding> findings() {
    const std::lock_guard lock(mutex_);
    return is_finished_ ? cast_findings(program_, statistics_) : std::vector<Finding>();
  }

 private:
  struct Space {
    TensorMemory memory;
    int64_t missing_bytes = 0;
  };

  void make_tiles() {
    const auto targets = program_.targets();
    std::vector<Placement> placements(targets.size(), {-1, 0});  // without bytes: no tiles
    for (size_t space = 0; space < order_.size(); ++space) {
      placements[order_[space]] = {static_cast<int32_t>(space), 0};
      spaces_[space].missing_bytes = targets[order_[space]].size_bytes;
    }
    tiles_ = make_schedule(program_, placements, limits_);
    for (size_t i = 0; i < targets.size(); ++i) {
      if (targets[i].size_bytes == 0) ready_.push_back({i, TensorMemory()});
    }
  }

  void work() noexcept {
    try {
      const RunStatistics done = execute(calls_, program_, tiles_, 0, limits_, *this, options_);
      finish(done, nullptr);
    } catch (...) {
      finish({}, std::current_exception());
    }
  }

  void finish(RunStatistics statistics, std::exception_ptr failure) noexcept {
    const std::lock_guard lock(mutex_);
    statistics_ = std::move(statistics);
    failure_ = std::move(failure);
    is_finished_ = true;
    changed_.notify_all();
  }

  bool is_over() const noexcept { return is_abandoned_ || stop_.stop_requested(); }
  bool has_news() const noexcept { return !ready_.empty() || is_finished_; }
  int64_t size_of(size_t space) const noexcept { return spaces_[space].missing_bytes; }
  bool can_begin(size_t space) const noexcept {
    return space == begun_ && (held_bytes_ == 0 || held_bytes_ + size_of(space) <= capacity_bytes_);
  }

  void begin_next() {
    const int64_t size_bytes = size_of(begun_);
    spaces_[begun_].memory = TensorMemory(size_bytes);
    held_bytes_ += size_bytes;
    ++begun_;
    changed_.notify_all();
  }

  const Syscalls& calls_;
  const CopyProgram& program_;
  RunOptions options_;
  const int64_t capacity_bytes_;
  const ScheduleLimits limits_;
  const std::vector<size_t> order_;  // space → target
  std::stop_source stop_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<Tile> tiles_;
  std::vector<Space> spaces_;
  size_t begun_ = 0;  // spaces before this one have memory, or had it
  int64_t held_bytes_ = 0;
  std::deque<StreamedTensor> ready_;
  size_t given_ = 0;  // tensors handed out
  bool is_abandoned_ = false;
  bool is_finished_ = false;
  std::exception_ptr failure_;
  RunStatistics statistics_;
  std::stop_callback<std::function<void()>> outer_stop_;
  std::jthread worker_;
};

TensorStream::TensorStream(const Syscalls& calls, const CopyProgram& program, const RunOptions& run)
    : run_(std::make_unique<Run>(calls, program, run)) {}
TensorStream::~TensorStream() = default;
std::optional<StreamedTensor> TensorStream::next() { return run_->next(); }
bool TensorStream::is_ready(std::chrono::milliseconds patience) { return run_->is_ready(patience); }
void TensorStream::stop() noexcept { run_->stop(); }
std::vector<Finding> TensorStream::findings() const { return run_->findings(); }

}  // namespace weightloom
