// A process group: ranks that run one program and exchange bytes.
//
// All ranks of a group make the same collective calls in the same order; each blocks until its part
// is done. What moves is bytes; numbers in them are this machine's own.
// Transports: threads of one process (thread_group.h), MPI (mpi_group.h); one more is a class that
// implements exchange, sub-groups and abort.
//
// Failure: a rank that cannot go on calls abort(), or throws out of run_guarded(), which does.
// Every rank that waits, and every later call on any group of these ranks, then throws a RankError
// that names it: nobody is left waiting. What is expected to go wrong on some ranks only is better
// agreed upon before the next collective (agreement.h): the group stays usable.
// Thread safety: a rank makes one call at a time, on whichever of its groups; abort() may be called
// beside it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "weightloom/base/error.h"
#include "weightloom/base/export.h"

namespace weightloom WEIGHTLOOM_EXPORT {

/// An error that a rank met, as all ranks of its group get it: "rank 2: …", with its code.
class RankError : public Error {
 public:
  /// What `rank` met; its message gets the rank in front. One that names a rank already stays as it
  /// is.
  RankError(int64_t rank, const Error& error);
  /// What `rank` told of an error that it met: the message names it already.
  static RankError told(int64_t rank, Error error);

  /// The rank that met it, in the group that all ranks form.
  int64_t rank() const noexcept { return rank_; }

 private:
  RankError(Error&& error, int64_t rank) : Error(std::move(error)), rank_(rank) {}

  int64_t rank_;
};

/// A message to another rank. Borrows the bytes.
struct Outgoing {
  int64_t to = 0;                    ///< a rank of the group
  int tag = 0;                       ///< in [0, kTags)
  std::span<const std::byte> bytes;  ///< of any number, none included
};

/// A message from another rank: the next of those with its tag. Borrows the memory.
struct Incoming {
  int64_t from = 0;            ///< a rank of the group
  int tag = 0;                 ///< in [0, kTags)
  std::span<std::byte> bytes;  ///< as many as are sent
};

/// Tags of messages lie below this.
inline constexpr int kTags = 1 << 10;

/// How all_reduce puts values together.
enum class Reduction { sum, min, max };

/// Ranks of one program; see the top of this file.
/// Errors of all calls: usage if a rank, tag or size is not of the group; RankError after an abort;
/// io if the transport fails.
class ProcessGroup {
 public:
  virtual ~ProcessGroup() = default;

  /// This process's or thread's place in the group.
  virtual int64_t rank() const noexcept = 0;
  /// Number of ranks.
  virtual int64_t size() const noexcept = 0;
  /// This rank's place in the group that all ranks form; messages name ranks by it.
  virtual int64_t world_rank() const noexcept = 0;

  /// Sends and receives all of these messages, in no order but that of messages with one tag
  /// between two ranks. Returns when the memory of all is the caller's again.
  /// Errors: usage if a message has another size than the memory for it.
  void exchange(std::span<const Outgoing> outgoing, std::span<const Incoming> incoming);
  /// One message. May wait until it is received: what goes both ways at once is an exchange().
  void send(int64_t to, int tag, std::span<const std::byte> bytes);
  /// One message.
  void recv(int64_t from, int tag, std::span<std::byte> bytes);

  /// What each rank gives, by rank, on all ranks.
  std::vector<std::vector<std::byte>> all_gather_v(std::span<const std::byte> mine);
  /// The same into the caller's memory, one rank's after another's, where the sizes are known.
  /// `mine` may stand in its place there. Precondition: all ranks give the same sizes.
  void all_gather_into(std::span<const std::byte> mine, std::span<const int64_t> sizes_bytes,
                       std::span<std::byte> all);
  /// Fills `bytes` on all ranks with what `root` has there.
  void broadcast(int64_t root, std::span<std::byte> bytes);
  /// Returns when all ranks have called it.
  void barrier();
  /// The sum, least or largest of each value over all ranks, on all ranks. For a few values.
  /// Errors: usage, on all ranks, if a sum is no int64.
  std::vector<int64_t> all_reduce(Reduction reduction, std::span<const int64_t> values);
  /// Of one value.
  int64_t all_reduce(Reduction reduction, int64_t value);

  /// A group of some of this group's ranks, in the order given; a call of those ranks together.
  /// Making one costs messages: callers keep it.
  /// Errors: usage if ranks repeat or this rank is not among them.
  std::unique_ptr<ProcessGroup> sub_group(std::span<const int64_t> ranks);

  /// Ends the program's communication: every rank that waits, or calls later, throws `reason` as of
  /// this rank. The first reason counts.
  virtual void abort(const Error& reason) noexcept = 0;

 protected:
  /// exchange() with arguments that are checked; tags below 2·kTags.
  virtual void do_exchange(std::span<const Outgoing> outgoing,
                           std::span<const Incoming> incoming) = 0;
  /// sub_group() with arguments that are checked.
  virtual std::unique_ptr<ProcessGroup> do_sub_group(std::span<const int64_t> ranks) = 0;
  /// The largest of the values that `ranks`, this one among them, give; a call of those together,
  /// for transports.
  int64_t largest_of(std::span<const int64_t> ranks, int tag, int64_t mine);
  /// all_gather_into() with arguments that are checked: here every rank sends to every other.
  virtual void do_all_gather(std::span<const std::byte> mine, std::span<const int64_t> sizes_bytes,
                             std::span<std::byte> all);
  /// broadcast() with arguments that are checked: here along a binomial tree.
  virtual void do_broadcast(int64_t root, std::span<std::byte> bytes);
};

/// Calls `body`; what it throws is told to all ranks, by abort(), before it goes on as a RankError
/// (or as it is, if it is no Error).
void run_guarded(ProcessGroup& group, const std::function<void()>& body);

}  // namespace weightloom
