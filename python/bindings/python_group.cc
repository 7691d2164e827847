#include "python_group.h"

#include <algorithm>
#include <cstddef>
#include <iterator>
#include <numeric>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>

#include "held_object.h"
#include "weightloom/base/error.h"

namespace nb = nanobind;

namespace weightloom::python {
namespace {

using Reason = std::tuple<int64_t, std::string, std::string, std::string>;

std::byte no_bytes{};

/// The bytes as a torch.uint8 tensor, which borrows them.
nb::object tensor_on(std::span<const std::byte> bytes) {
  auto* const data = const_cast<std::byte*>(bytes.empty() ? &no_bytes : bytes.data());
  const size_t size = bytes.size();
  const nb::ndarray<nb::pytorch, nb::device::cpu, uint8_t> array(data, 1, &size, nb::handle());
  return nb::cast(array, nb::rv_policy::reference);
}

Reason reason_of(const RankError& error) {
  return {error.rank(), std::string(to_string(error.code())), error.what(), error.next_step()};
}

ErrorCode code_called(const std::string& name) {
  for (int i = 0; i < static_cast<int>(ErrorCode::unsupported); ++i) {
    if (to_string(static_cast<ErrorCode>(i)) == name) return static_cast<ErrorCode>(i);
  }
  return ErrorCode::unsupported;
}

RankError error_of(const Reason& reason) {
  const auto& [rank, code, message, next_step] = reason;
  return RankError::told(rank, Error(code_called(code), message, next_step));
}

/// "ValueError: out of order".
std::string text_of(const nb::python_error& error) {
  return nb::cast<std::string>(nb::str(error.type().attr("__name__"))) + ": " +
         nb::cast<std::string>(nb::str(error.value()));
}

/// What all groups of a process share.
class Transport {
 public:
  explicit Transport(const nb::object& object)
      : size(nb::cast<int64_t>(object.attr("size"))),
        rank(nb::cast<int64_t>(object.attr("rank"))),
        object_(object) {}

  /// Ranks are of the world. Errors: RankError, io.
  void exchange(std::span<const Outgoing> outgoing, std::span<const Incoming> incoming) {
    const nb::gil_scoped_acquire locked;
    try {
      const nb::object ended = object_.get().attr("exchange")(listed(outgoing), listed(incoming));
      if (!ended.is_none()) throw error_of(nb::cast<Reason>(ended));
    } catch (const nb::python_error& error) {
      const Error failure(ErrorCode::io, text_of(error));
      abort(RankError(rank, failure));
      throw RankError(rank, failure);
    }
  }

  void abort(const RankError& reason) noexcept {
    if (!nb::is_alive()) return;
    const nb::gil_scoped_acquire locked;
    try {
      object_.get().attr("abort")(nb::cast(reason_of(reason)));
    } catch (const std::exception&) {
      return;  // whoever waits for this rank hears of it when its process or group ends
    }
  }

  const int64_t size;
  const int64_t rank;
  int64_t next_context = 1;  // that no group of this rank has

 private:
  static nb::list listed(std::span<const Outgoing> messages) {
    nb::list list;
    for (const Outgoing& message : messages) {
      list.append(nb::make_tuple(message.to, message.tag, tensor_on(message.bytes)));
    }
    return list;
  }
  static nb::list listed(std::span<const Incoming> messages) {
    nb::list list;
    for (const Incoming& message : messages) {
      list.append(nb::make_tuple(message.from, message.tag, tensor_on(message.bytes)));
    }
    return list;
  }

  HeldObject object_;
};

/// Ranks of the world. Groups that have a rank in common have different contexts, which their
/// messages' tags begin with.
class PythonGroup final : public ProcessGroup {
 public:
  PythonGroup(std::shared_ptr<Transport> transport, std::vector<int64_t> ranks, int64_t rank,
              int64_t context)
      : transport_(std::move(transport)),
        ranks_(std::move(ranks)),
        rank_(rank),
        first_tag_(static_cast<int>(context * kTagsOfContext)) {}

  int64_t rank() const noexcept override { return rank_; }
  int64_t size() const noexcept override { return std::ssize(ranks_); }
  int64_t world_rank() const noexcept override { return transport_->rank; }

  void abort(const Error& reason) noexcept override {
    transport_->abort(RankError(world_rank(), reason));
  }

 private:
  static constexpr int64_t kTagsOfContext = int64_t{2} * kTags;
  static constexpr int kMeetingTag = 2 * kTags - 1;
  // The last one has no tags of its own: the transport may use them.
  static constexpr int64_t kContexts = (int64_t{1} << 31) / kTagsOfContext - 1;

  /// A message to this rank itself, from one of the same exchange.
  static void deliver(const Outgoing& sent, const Incoming& wanted) {
    if (sent.bytes.size() != wanted.bytes.size()) {
      refuse_size(std::ssize(sent.bytes), wanted);
    }
    std::ranges::copy(sent.bytes, wanted.bytes.begin());
  }

  [[noreturn]] static void refuse_size(int64_t sent, const Incoming& wanted) {
    throw Error(ErrorCode::usage, "a message of " + std::to_string(sent) + " bytes from rank " +
                                      std::to_string(wanted.from) + " with tag " +
                                      std::to_string(wanted.tag) + ", needed " +
                                      std::to_string(wanted.bytes.size()) + " bytes");
  }

  void do_exchange(std::span<const Outgoing> outgoing,
                   std::span<const Incoming> incoming) override {
    deliver_own(outgoing, incoming);
    std::vector<Outgoing> sent;
    for (const Outgoing& message : outgoing) {
      if (message.to == rank_) continue;
      sent.push_back({in_world(message.to), first_tag_ + message.tag, message.bytes});
    }
    std::vector<Incoming> received;
    for (const Incoming& message : incoming) {
      if (message.from == rank_) continue;
      received.push_back({in_world(message.from), first_tag_ + message.tag, message.bytes});
    }
    exchange_with_others(sent, received);
  }

  /// What this rank sends to itself it receives in the same exchange.
  void deliver_own(std::span<const Outgoing> outgoing, std::span<const Incoming> incoming) const {
    std::vector<Outgoing> own;
    std::ranges::copy_if(outgoing, std::back_inserter(own),
                         [&](const Outgoing& message) { return message.to == rank_; });
    for (const Incoming& message : incoming) {
      if (message.from != rank_) continue;
      const auto sent = std::ranges::find(own, message.tag, &Outgoing::tag);
      if (sent == own.end()) refuse_unpaired();
      deliver(*sent, message);
      own.erase(sent);
    }
    if (!own.empty()) refuse_unpaired();
  }

  [[noreturn]] void refuse_unpaired() const {
    throw Error(ErrorCode::usage, "rank " + std::to_string(rank_) +
                                      " sends to itself what it does not receive in the same "
                                      "exchange");
  }

  /// First the sizes, then the messages.
  void exchange_with_others(const std::vector<Outgoing>& outgoing,
                            const std::vector<Incoming>& incoming) {
    std::vector<int64_t> sizes;
    for (const Outgoing& message : outgoing) sizes.push_back(std::ssize(message.bytes));
    std::vector<int64_t> announced(incoming.size());
    std::vector<Outgoing> heads = outgoing;
    for (size_t i = 0; i < heads.size(); ++i) {
      heads[i].bytes = std::as_bytes(std::span(&sizes[i], 1));
    }
    std::vector<Incoming> places = incoming;
    for (size_t i = 0; i < places.size(); ++i) {
      places[i].bytes = std::as_writable_bytes(std::span(&announced[i], 1));
    }
    transport_->exchange(heads, places);
    for (size_t i = 0; i < incoming.size(); ++i) {
      if (announced[i] != std::ssize(incoming[i].bytes))
        refuse_announced(announced[i], incoming[i]);
    }
    transport_->exchange(outgoing, incoming);
  }

  /// The message itself will not be taken: whoever sends it must not wait.
  [[noreturn]] void refuse_announced(int64_t size, Incoming message) {
    message.tag -= first_tag_;
    try {
      refuse_size(size, message);
    } catch (const Error& error) {
      abort(error);
      throw RankError(world_rank(), error);
    }
  }

  std::unique_ptr<ProcessGroup> do_sub_group(std::span<const int64_t> ranks) override {
    // One that none of the members has.
    const int64_t context = largest_of(ranks, kMeetingTag, transport_->next_context);
    if (context >= kContexts) {
      throw Error(ErrorCode::unsupported,
                  std::to_string(context) +
                      " groups were made in this process, and there are tags for no more",
                  "keep groups instead of making them again");
    }
    transport_->next_context = context + 1;
    std::vector<int64_t> members;
    for (const int64_t rank : ranks) members.push_back(in_world(rank));
    const auto place = std::ranges::find(ranks, rank_) - ranks.begin();
    return std::make_unique<PythonGroup>(transport_, std::move(members), place, context);
  }

  int64_t in_world(int64_t rank) const noexcept { return ranks_[static_cast<size_t>(rank)]; }

  std::shared_ptr<Transport> transport_;
  std::vector<int64_t> ranks_;  // of the world
  int64_t rank_;
  int first_tag_;
};

}  // namespace

std::unique_ptr<ProcessGroup> python_group(const nb::object& transport) {
  auto world = std::make_shared<Transport>(transport);
  std::vector<int64_t> ranks(static_cast<size_t>(world->size));
  std::iota(ranks.begin(), ranks.end(), 0);
  const int64_t rank = world->rank;
  return std::make_unique<PythonGroup>(std::move(world), std::move(ranks), rank, 0);
}

}  // namespace weightloom::python
