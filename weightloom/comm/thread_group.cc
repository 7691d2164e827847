#include "weightloom/comm/thread_group.h"

#include <algorithm>
#include <condition_variable>
#include <cstring>
#include <deque>
#include <exception>
#include <list>
#include <map>
#include <mutex>
#include <numeric>
#include <optional>
#include <thread>
#include <utility>

#include <fmt/format.h>

namespace weightloom {
namespace {

/// Ranks of the world, in the order of a group.
using WorldRanks = std::vector<int64_t>;

/// What a message is for: the group, who sends it, and its tag.
struct Label {
  int group = 0;
  int64_t from = 0;  // of the world
  int tag = 0;

  friend bool operator==(const Label&, const Label&) = default;
};

/// A message that its sender waits to be rid of.
struct Post {
  enum class State { waiting, being_copied, taken };
  Label label;
  std::span<const std::byte> bytes;
  State state = State::waiting;
};

/// What all threads share.
class ThreadWorld {
 public:
  explicit ThreadWorld(int64_t ranks) : mailboxes_(static_cast<size_t>(ranks)) {}

  /// The number of the group of these ranks: the same for all who ask.
  int number_of(const WorldRanks& ranks) {
    const std::lock_guard lock(mutex_);
    return groups_.try_emplace(ranks, static_cast<int>(groups_.size())).first->second;
  }

  void post(int64_t to, Post& post) {
    const std::lock_guard lock(mutex_);
    mailboxes_[static_cast<size_t>(to)].push_back(&post);
    changed_.notify_all();
  }

  /// Waits for a message to `me`, and copies it.
  void receive(int64_t me, const Label& label, std::span<std::byte> memory) {
    Post& post = claim(me, label);
    const bool fits = post.bytes.size() == memory.size();
    const size_t found = post.bytes.size();
    if (fits && !memory.empty()) std::memcpy(memory.data(), post.bytes.data(), memory.size());
    {
      const std::lock_guard lock(mutex_);
      post.state = Post::State::taken;
      changed_.notify_all();
    }
    if (fits) return;
    throw Error(ErrorCode::usage,
                fmt::format("a message of {} bytes from rank {} with tag {}, needed {} bytes",
                            found, label.from, label.tag, memory.size()));
  }

  /// Waits until all posts are taken.
  void wait_for(const std::deque<Post>& posts) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return failure_ || all_are(posts, Post::State::taken); });
    if (failure_) throw RankError(*failure_);
  }

  /// Takes back what is not taken yet: no one reads the posts any more.
  void withdraw(const std::deque<Post>& posts) noexcept {
    std::unique_lock lock(mutex_);
    for (auto& mailbox : mailboxes_) {
      std::erase_if(mailbox, [&](const Post* post) {
        return std::ranges::any_of(posts, [&](const Post& mine) { return &mine == post; });
      });
    }
    changed_.wait(lock, [&] { return none_is(posts, Post::State::being_copied); });
  }

  void abort(const RankError& failure) {
    const std::lock_guard lock(mutex_);
    if (!failure_) failure_ = failure;
    changed_.notify_all();
  }

  std::optional<RankError> failure() {
    const std::lock_guard lock(mutex_);
    return failure_;
  }

 private:
  static bool all_are(const std::deque<Post>& posts, Post::State state) {
    return std::ranges::all_of(posts, [&](const Post& post) { return post.state == state; });
  }
  static bool none_is(const std::deque<Post>& posts, Post::State state) {
    return std::ranges::none_of(posts, [&](const Post& post) { return post.state == state; });
  }

  Post& claim(int64_t me, const Label& label) {
    std::unique_lock lock(mutex_);
    auto& mailbox = mailboxes_[static_cast<size_t>(me)];
    auto found = mailbox.end();
    changed_.wait(lock, [&] {
      found = std::ranges::find_if(mailbox, [&](const Post* p) { return p->label == label; });
      return failure_ || found != mailbox.end();
    });
    if (failure_) throw RankError(*failure_);
    Post& post = **found;
    post.state = Post::State::being_copied;
    mailbox.erase(found);
    return post;
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<std::list<Post*>> mailboxes_;  // by the receiver's rank
  std::map<WorldRanks, int> groups_;
  std::optional<RankError> failure_;
};

/// The messages that a call sends, taken back when it ends.
class Posts {
 public:
  explicit Posts(ThreadWorld& world) : world_(world) {}
  ~Posts() { world_.withdraw(posts_); }
  Posts(const Posts&) = delete;
  Posts& operator=(const Posts&) = delete;

  void add(int64_t to, Label label, std::span<const std::byte> bytes) {
    world_.post(to, posts_.emplace_back(Post{label, bytes}));
  }
  void wait() { world_.wait_for(posts_); }

 private:
  ThreadWorld& world_;
  std::deque<Post> posts_;  // whose items stay where they are
};

class ThreadGroup : public ProcessGroup {
 public:
  ThreadGroup(std::shared_ptr<ThreadWorld> world, WorldRanks ranks, int64_t rank)
      : world_(std::move(world)),
        ranks_(std::move(ranks)),
        rank_(rank),
        number_(world_->number_of(ranks_)) {}

  int64_t rank() const noexcept override { return rank_; }
  int64_t size() const noexcept override { return std::ssize(ranks_); }
  int64_t world_rank() const noexcept override { return ranks_[static_cast<size_t>(rank_)]; }

  void abort(const Error& reason) noexcept override {
    world_->abort(RankError(world_rank(), reason));
  }

 private:
  int64_t in_world(int64_t rank) const { return ranks_[static_cast<size_t>(rank)]; }

  void do_exchange(std::span<const Outgoing> outgoing,
                   std::span<const Incoming> incoming) override {
    if (const auto failure = world_->failure()) throw RankError(*failure);
    Posts posts(*world_);
    for (const Outgoing& message : outgoing) {
      posts.add(in_world(message.to), {number_, world_rank(), message.tag}, message.bytes);
    }
    for (const Incoming& message : incoming) {
      world_->receive(world_rank(), {number_, in_world(message.from), message.tag}, message.bytes);
    }
    posts.wait();
  }

  std::unique_ptr<ProcessGroup> do_sub_group(std::span<const int64_t> ranks) override {
    WorldRanks chosen;
    for (const int64_t rank : ranks) chosen.push_back(in_world(rank));
    const auto place = std::ranges::find(ranks, rank_) - ranks.begin();
    return std::make_unique<ThreadGroup>(world_, std::move(chosen), place);
  }

  std::shared_ptr<ThreadWorld> world_;
  WorldRanks ranks_;
  int64_t rank_;
  int number_;
};

/// Throws what began it: not what the ranks got that were released.
void rethrow_first(const std::vector<std::exception_ptr>& failures) {
  const auto any = std::ranges::find_if(failures, [](const auto& failure) { return !!failure; });
  if (any == failures.end()) return;
  try {
    std::rethrow_exception(*any);
  } catch (const RankError& error) {
    const std::exception_ptr& origin = failures[static_cast<size_t>(error.rank())];
    if (!origin) throw;
    std::rethrow_exception(origin);
  }
}

}  // namespace

std::vector<std::unique_ptr<ProcessGroup>> thread_groups(int64_t ranks) {
  if (ranks < 1) throw Error(ErrorCode::usage, fmt::format("a group of {} ranks", ranks));
  WorldRanks all(static_cast<size_t>(ranks));
  std::iota(all.begin(), all.end(), int64_t{0});
  const auto world = std::make_shared<ThreadWorld>(ranks);
  std::vector<std::unique_ptr<ProcessGroup>> groups;
  for (int64_t rank = 0; rank < ranks; ++rank) {
    groups.push_back(std::make_unique<ThreadGroup>(world, all, rank));
  }
  return groups;
}

void run_on_threads(int64_t ranks, const std::function<void(ProcessGroup&)>& body) {
  const auto groups = thread_groups(ranks);
  std::vector<std::exception_ptr> failures(groups.size());
  const auto run = [&](size_t rank) {
    try {
      run_guarded(*groups[rank], [&] { body(*groups[rank]); });
    } catch (...) {
      failures[rank] = std::current_exception();
    }
  };
  run_guarded(*groups.front(), [&] {
    std::vector<std::jthread> threads;
    for (size_t rank = 0; rank < groups.size(); ++rank) threads.emplace_back(run, rank);
  });
  rethrow_first(failures);
}

}  // namespace weightloom
