// Stream: a program's targets one by one, each in memory of its own, as soon as it is complete, so
// that what is done with one overlaps with reading the next.
//
// The budget is shared by halves: one for tiles and staging, one for tensors that are begun and not
// taken yet. A tensor larger than its half comes alone. Workers wait while the half is full; what
// was taken is the caller's and does not count.
// Thread safety: all calls may run concurrently; of several that wait in next, each tensor goes to
// one.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "weightloom/base/error.h"
#include "weightloom/base/export.h"
#include "weightloom/base/syscalls.h"
#include "weightloom/execute/progress.h"
#include "weightloom/plan/program.h"

namespace weightloom WEIGHTLOOM_EXPORT {

/// Memory of one tensor: huge pages for a large one. Movable; freed when destroyed.
class TensorMemory {
 public:
  /// Of no bytes.
  TensorMemory();
  /// Not initialized, aligned to 64 bytes. Errors: no_space.
  explicit TensorMemory(int64_t size_bytes);
  TensorMemory(TensorMemory&&) noexcept;             ///< Leaves the other one without bytes.
  TensorMemory& operator=(TensorMemory&&) noexcept;  ///< Frees what it held.
  ~TensorMemory();

  /// All of it.
  std::span<std::byte> bytes() const noexcept;

 private:
  struct Holder;
  std::unique_ptr<Holder> holder_;
};

/// A tensor that is complete.
struct StreamedTensor {
  size_t target = 0;    ///< into the program's targets
  TensorMemory memory;  ///< its bytes
};

/// A run that gives tensors; see the top of this file.
class TensorStream {
 public:
  /// Begins the run, on `run.threads` threads. Borrows `calls` and `program`.
  /// Errors: usage if the budget is too small for the threads.
  TensorStream(const Syscalls& calls, const CopyProgram& program, const RunOptions& run);
  /// Stops the run and waits until its threads are gone.
  ~TensorStream();
  TensorStream(const TensorStream&) = delete;
  TensorStream& operator=(const TensorStream&) = delete;

  /// The next tensor, in the order in which they are complete; nothing after the last. Waits.
  /// Errors: what the run ended with; cancelled after stop().
  std::optional<StreamedTensor> next();
  /// True if next() would not wait; waits for that, but no longer than `patience`.
  bool is_ready(std::chrono::milliseconds patience);
  /// Ends the run soon. Tensors that were not taken are freed.
  void stop() noexcept;
  /// After the last tensor: values that casts made infinite, as reports.
  std::vector<Finding> findings() const;

 private:
  class Run;
  std::unique_ptr<Run> run_;
};

}  // namespace weightloom
