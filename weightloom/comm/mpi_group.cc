#include "weightloom/comm/mpi_group.h"

#include <algorithm>
#include <chrono>
#include <numeric>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <mpi.h>

#include "weightloom/comm/error_wire_internal.h"

namespace weightloom {
namespace {

// MPI counts in int.
constexpr size_t kChunkBytes = size_t{1} << 30;
// So much of an abort's reason is told: such messages leave without waiting for the receiver.
constexpr size_t kReasonBytes = 2048;
// Waits look so often before they yield, and before they sleep.
constexpr int kEagerLooks = 100;
constexpr int kYieldingLooks = 1000;
constexpr auto kNap = std::chrono::microseconds(50);

void check(int result, const char* call) {
  if (result == MPI_SUCCESS) return;
  char text[MPI_MAX_ERROR_STRING];
  int length = 0;
  MPI_Error_string(result, text, &length);
  throw Error(ErrorCode::io,
              fmt::format("{}: {}", call, std::string_view(text, static_cast<size_t>(length))));
}

bool is_running() {
  int initialised = 0;
  int finalised = 0;
  MPI_Initialized(&initialised);
  MPI_Finalized(&finalised);
  return initialised != 0 && finalised == 0;
}

/// Owns a communicator.
class Communicator {
 public:
  explicit Communicator(MPI_Comm comm) : comm_(comm) {
    MPI_Comm_set_errhandler(comm_, MPI_ERRORS_RETURN);
  }
  ~Communicator() {
    if (!is_left_ && is_running()) MPI_Comm_free(&comm_);
  }
  Communicator(const Communicator&) = delete;
  Communicator& operator=(const Communicator&) = delete;

  /// Never frees it: messages that no one received would go to the next that gets its number.
  void leave() noexcept { is_left_ = true; }

  MPI_Comm get() const noexcept { return comm_; }
  int size() const {
    int ranks = 0;
    MPI_Comm_size(comm_, &ranks);
    return ranks;
  }
  int rank() const {
    int mine = 0;
    MPI_Comm_rank(comm_, &mine);
    return mine;
  }

 private:
  MPI_Comm comm_;
  bool is_left_ = false;
};

MPI_Comm duplicate(MPI_Comm comm) {
  MPI_Comm result = MPI_COMM_NULL;
  check(MPI_Comm_dup(comm, &result), "MPI_Comm_dup");
  return result;
}

/// How the ranks of a program hear of an abort.
class AbortLine {
 public:
  explicit AbortLine(MPI_Comm comm) : line_(comm) {}
  ~AbortLine() {
    if (failure_) line_.leave();
  }
  AbortLine(const AbortLine&) = delete;
  AbortLine& operator=(const AbortLine&) = delete;

  bool has_failed() const noexcept { return failure_.has_value(); }

  /// Tells all other ranks, once. The messages are too small to wait for anyone.
  void abort(const Error& reason) {
    if (failure_) return;
    failure_.emplace(line_.rank(), reason);
    const std::string message = std::string(failure_->what()).substr(0, kReasonBytes);
    WireWriter writer;
    put_error(writer, RankError::told(failure_->rank(), Error(failure_->code(), message)));
    const auto bytes = std::move(writer).bytes();
    for (int other = 0; other < line_.size(); ++other) {
      if (other == line_.rank()) continue;
      MPI_Send(bytes.data(), static_cast<int>(bytes.size()), MPI_BYTE, other, 0, line_.get());
    }
  }

  /// Errors: RankError if a rank has aborted.
  void check_failure() {
    if (!failure_) look();
    if (failure_) throw RankError(*failure_);
  }

 private:
  void look() {
    int found = 0;
    MPI_Status status;
    check(MPI_Iprobe(MPI_ANY_SOURCE, 0, line_.get(), &found, &status), "MPI_Iprobe");
    if (found == 0) return;
    int size = 0;
    MPI_Get_count(&status, MPI_BYTE, &size);
    std::vector<std::byte> bytes(static_cast<size_t>(size));
    check(MPI_Recv(bytes.data(), size, MPI_BYTE, status.MPI_SOURCE, 0, line_.get(), &status),
          "MPI_Recv");
    WireReader reader(bytes);
    failure_ = take_error(reader);
  }

  Communicator line_;
  std::optional<RankError> failure_;
};

/// Messages under way; given up if they are not done when this is destroyed.
class Requests {
 public:
  Requests(AbortLine& line, MPI_Comm comm) : line_(line), comm_(comm) {}
  ~Requests() {
    for (size_t i = 0; i < requests_.size(); ++i) give_up(i);
  }
  Requests(const Requests&) = delete;
  Requests& operator=(const Requests&) = delete;

  void receive(std::span<std::byte> memory, int from, int tag) {
    for_each_chunk(memory.size(), [&](size_t at, int size) {
      check(MPI_Irecv(memory.data() + at, size, MPI_BYTE, from, tag, comm_, &add(size)),
            "MPI_Irecv");
    });
  }
  void send(std::span<const std::byte> bytes, int to, int tag) {
    for_each_chunk(bytes.size(), [&](size_t at, int size) {
      check(MPI_Isend(bytes.data() + at, size, MPI_BYTE, to, tag, comm_, &add(kSends)),
            "MPI_Isend");
    });
  }

  void wait() {
    std::vector<int> done(requests_.size());
    std::vector<MPI_Status> statuses(requests_.size());
    size_t left = requests_.size();
    for (int looks = 0; left > 0; ++looks) {
      line_.check_failure();
      int count = 0;
      const int result = MPI_Testsome(static_cast<int>(requests_.size()), requests_.data(), &count,
                                      done.data(), statuses.data());
      if (result != MPI_ERR_IN_STATUS) check(result, "MPI_Testsome");
      for (size_t i = 0; i < static_cast<size_t>(count); ++i) {
        if (result == MPI_ERR_IN_STATUS) check_status(static_cast<size_t>(done[i]), statuses[i]);
        check_size(static_cast<size_t>(done[i]), statuses[i]);
      }
      left -= static_cast<size_t>(count);
      looks = count > 0 ? 0 : looks;
      rest(looks);
    }
  }

 private:
  static constexpr int kSends = -1;  // for a size

  template <typename Visit>
  static void for_each_chunk(size_t size, const Visit& visit) {
    size_t at = 0;
    do {
      const size_t chunk = std::min(size - at, kChunkBytes);
      visit(at, static_cast<int>(chunk));
      at += chunk;
    } while (at < size);
  }

  static void rest(int looks) {
    if (looks > kYieldingLooks) {
      std::this_thread::sleep_for(kNap);
    } else if (looks > kEagerLooks) {
      std::this_thread::yield();
    }
  }

  MPI_Request& add(int size) {
    sizes_.push_back(size);
    return requests_.emplace_back(MPI_REQUEST_NULL);
  }

  void check_status(size_t request, const MPI_Status& status) const {
    int error_class = MPI_SUCCESS;
    MPI_Error_class(status.MPI_ERROR, &error_class);
    if (error_class == MPI_ERR_TRUNCATE) refuse_size("more", request, status);
    check(status.MPI_ERROR, "a message");
  }
  void check_size(size_t request, const MPI_Status& status) const {
    if (sizes_[request] == kSends) return;
    int size = 0;
    MPI_Get_count(&status, MPI_BYTE, &size);
    if (size != sizes_[request]) refuse_size(fmt::to_string(size), request, status);
  }
  [[noreturn]] void refuse_size(const std::string& found, size_t request,
                                const MPI_Status& status) const {
    throw Error(
        ErrorCode::usage,
        fmt::format("a message of {} bytes from rank {} with tag {}, needed {} bytes", found,
                    status.MPI_SOURCE, status.MPI_TAG % (2 * kTags), sizes_[request]));
  }

  void give_up(size_t i) noexcept {
    if (requests_[i] == MPI_REQUEST_NULL) return;
    if (sizes_[i] != kSends) MPI_Cancel(&requests_[i]);
    MPI_Request_free(&requests_[i]);
  }

  AbortLine& line_;
  MPI_Comm comm_;
  std::vector<MPI_Request> requests_;
  std::vector<int> sizes_;  // by request
};

/// What the groups of a process share.
struct MpiWorld {
  explicit MpiWorld(MPI_Comm all) : comm(duplicate(all)), line(duplicate(all)) {}
  ~MpiWorld() {
    if (line.has_failed()) comm.leave();
  }
  MpiWorld(const MpiWorld&) = delete;
  MpiWorld& operator=(const MpiWorld&) = delete;

  Communicator comm;
  AbortLine line;
  int64_t next_context = 1;  // that no group of this rank has
};

/// Ranks of the world. Groups that have a rank in common have different contexts, which their
/// messages' tags begin with: making one takes messages only, so that it can be given up as well.
class MpiGroup : public ProcessGroup {
 public:
  MpiGroup(std::shared_ptr<MpiWorld> world, std::vector<int> ranks, int64_t rank, int64_t context)
      : world_(std::move(world)),
        ranks_(std::move(ranks)),
        rank_(rank),
        first_tag_(static_cast<int>(context * kTagsOfContext)) {}

  int64_t rank() const noexcept override { return rank_; }
  int64_t size() const noexcept override { return std::ssize(ranks_); }
  int64_t world_rank() const noexcept override { return in_world(rank_); }

  void abort(const Error& reason) noexcept override { world_->line.abort(reason); }

 private:
  static constexpr int64_t kTagsOfContext = int64_t{2} * kTags;
  static constexpr int kMeetingTag = 2 * kTags - 1;

  int in_world(int64_t rank) const noexcept { return ranks_[static_cast<size_t>(rank)]; }

  void do_exchange(std::span<const Outgoing> outgoing,
                   std::span<const Incoming> incoming) override {
    world_->line.check_failure();
    Requests requests(world_->line, world_->comm.get());
    for (const Incoming& message : incoming) {
      requests.receive(message.bytes, in_world(message.from), first_tag_ + message.tag);
    }
    for (const Outgoing& message : outgoing) {
      requests.send(message.bytes, in_world(message.to), first_tag_ + message.tag);
    }
    requests.wait();
  }

  std::unique_ptr<ProcessGroup> do_sub_group(std::span<const int64_t> ranks) override {
    // One that none of the members has.
    const int64_t context = largest_of(ranks, kMeetingTag, world_->next_context);
    refuse_more_contexts_than_tags(context);
    world_->next_context = context + 1;
    std::vector<int> members;
    for (const int64_t rank : ranks) members.push_back(in_world(rank));
    const auto place = std::ranges::find(ranks, rank_) - ranks.begin();
    return std::make_unique<MpiGroup>(world_, std::move(members), place, context);
  }

  void refuse_more_contexts_than_tags(int64_t context) const {
    void* value = nullptr;
    int is_set = 0;
    check(MPI_Comm_get_attr(world_->comm.get(), MPI_TAG_UB, static_cast<void*>(&value), &is_set),
          "MPI_Comm_get_attr");
    const int64_t largest_tag = is_set != 0 ? *static_cast<int*>(value) : 32767;
    if ((context + 1) * kTagsOfContext - 1 <= largest_tag) return;
    throw Error(
        ErrorCode::unsupported,
        fmt::format("{} groups were made in this process, and this MPI has tags for no more",
                    context),
        "keep groups instead of making them again");
  }

  std::shared_ptr<MpiWorld> world_;
  std::vector<int> ranks_;  // of the world
  int64_t rank_;
  int first_tag_;
};

}  // namespace

MpiSession::MpiSession() {
  int initialised = 0;
  MPI_Initialized(&initialised);
  if (initialised != 0) return;
  int provided = 0;
  check(MPI_Init_thread(nullptr, nullptr, MPI_THREAD_SERIALIZED, &provided), "MPI_Init_thread");
  initialised_here_ = true;
}

MpiSession::~MpiSession() {
  if (initialised_here_ && is_running()) MPI_Finalize();
}

std::unique_ptr<ProcessGroup> mpi_group() {
  MPI_Comm world = MPI_COMM_WORLD;
  return mpi_group(static_cast<const void*>(&world));
}

std::unique_ptr<ProcessGroup> mpi_group(const void* communicator) {
  if (!is_running()) {
    throw Error(ErrorCode::usage, "MPI is not initialised", "hold an MpiSession meanwhile");
  }
  auto world = std::make_shared<MpiWorld>(*static_cast<const MPI_Comm*>(communicator));
  const int rank = world->comm.rank();
  std::vector<int> ranks(static_cast<size_t>(world->comm.size()));
  std::iota(ranks.begin(), ranks.end(), 0);
  return std::make_unique<MpiGroup>(std::move(world), std::move(ranks), rank, 0);
}

}  // namespace weightloom
