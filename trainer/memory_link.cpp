#include "trainer/memory_link.hpp"

#include <fmt/chrono.h>

#include <algorithm>
#include <condition_variable>
#include <map>
#include <mutex>
#include <utility>

#include "models/base/error.hpp"
#include "models/base/libraries/format.hpp"

namespace rookery {
namespace {

using std::chrono::milliseconds;

// Why a wait ended without what was waited for.
enum class Outcome : std::uint8_t { kDone, kDeadline, kPeerGone };

// The tensors under way from one rank to another.
class Mailbox {
 public:
  explicit Mailbox(std::size_t capacity) : capacity_(capacity) {}

  // One writer, one reader.
  Outcome put(const MessageKey& key, ConstTensorView tensor, milliseconds deadline) {
    std::unique_lock lock(mutex_);
    const bool ready =
        changed_.wait_for(lock, deadline, [&] { return reader_gone_ || waiting_.size() < capacity_; });
    if (!ready) return Outcome::kDeadline;
    if (reader_gone_) return Outcome::kPeerGone;
    lock.unlock();
    Tensor copied(tensor.type);
    copy(tensor, copied.view());
    lock.lock();
    const bool is_new = waiting_.emplace(key, std::move(copied)).second;
    ROOKERY_CHECK(is_new, "{} was sent twice", to_string(key));
    changed_.notify_all();
    return Outcome::kDone;
  }

  Outcome take(const MessageKey& key, Tensor& tensor, milliseconds deadline) {
    std::unique_lock lock(mutex_);
    const bool ready =
        changed_.wait_for(lock, deadline, [&] { return waiting_.contains(key) || writer_gone_; });
    if (!ready) return Outcome::kDeadline;
    const auto found = waiting_.find(key);
    if (found == waiting_.end()) return Outcome::kPeerGone;
    tensor = std::move(found->second);
    waiting_.erase(found);
    changed_.notify_all();
    return Outcome::kDone;
  }

  void leave_reader() { leave(reader_gone_); }
  void leave_writer() { leave(writer_gone_); }

 private:
  void leave(bool& gone) {
    const std::scoped_lock lock(mutex_);
    gone = true;
    changed_.notify_all();
  }

  const std::size_t capacity_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::map<MessageKey, Tensor> waiting_;
  bool reader_gone_ = false;
  bool writer_gone_ = false;
};

// One mailbox for every ordered pair of ranks.
class Mailboxes {
 public:
  Mailboxes(int ranks, std::size_t capacity) : ranks_(ranks) {
    for (int i = 0; i < ranks * ranks; ++i) boxes_.push_back(std::make_unique<Mailbox>(capacity));
  }
  int ranks() const { return ranks_; }
  Mailbox& between(int from, int to) {
    ROOKERY_CHECK(from != to && std::min(from, to) >= 0 && std::max(from, to) < ranks_,
                  "a message from {} to {} of {}", from, to, ranks_);
    return *boxes_[static_cast<std::size_t>(from) * static_cast<std::size_t>(ranks_) +
                   static_cast<std::size_t>(to)];
  }

 private:
  int ranks_;
  std::vector<std::unique_ptr<Mailbox>> boxes_;
};

[[noreturn]] void fail(std::string_view doing, const MessageKey& key, int peer, Outcome outcome,
                       std::string_view missing, milliseconds deadline) {
  const std::string reason = outcome == Outcome::kPeerGone
                                 ? std::string("it has ended")
                                 : fmt::format("it {} nothing for {}", missing, deadline);
  throw TransportError(fmt::format("{} {} {} rank {}: {}", doing, to_string(key),
                                   doing == "send" ? "to" : "from", peer, reason));
}

// What sends and receives have in common: attempts that may wait, until one succeeds.
class MemoryTransfer : public PendingTransfer {
 public:
  explicit MemoryTransfer(milliseconds deadline) : deadline_(deadline) {}

  bool test() final {
    if (!is_done_) is_done_ = attempt(milliseconds(0)) == Outcome::kDone;
    return is_done_;
  }
  void wait() final {
    if (is_done_) return;
    const Outcome outcome = attempt(deadline_);
    if (outcome != Outcome::kDone) fail_with(outcome);
    is_done_ = true;
  }

 protected:
  // Throws where the peer is gone.
  virtual Outcome attempt(milliseconds deadline) = 0;
  [[noreturn]] virtual void fail_with(Outcome outcome) const = 0;
  milliseconds deadline() const { return deadline_; }

 private:
  milliseconds deadline_;
  bool is_done_ = false;
};

class MemorySend final : public MemoryTransfer {
 public:
  MemorySend(Mailbox& box, int to, MessageKey key, ConstTensorView tensor, milliseconds deadline)
      : MemoryTransfer(deadline), box_(box), to_(to), key_(std::move(key)), tensor_(tensor) {}

 private:
  Outcome attempt(milliseconds deadline) override {
    const Outcome outcome = box_.put(key_, tensor_, deadline);
    if (outcome == Outcome::kPeerGone) fail_with(outcome);
    return outcome;
  }
  [[noreturn]] void fail_with(Outcome outcome) const override {
    fail("send", key_, to_, outcome, "has taken", deadline());
  }

  Mailbox& box_;
  int to_;
  MessageKey key_;
  ConstTensorView tensor_;
};

class MemoryReceive final : public MemoryTransfer {
 public:
  MemoryReceive(Mailbox& box, int from, MessageKey key, TensorView into, milliseconds deadline)
      : MemoryTransfer(deadline), box_(box), from_(from), key_(std::move(key)), into_(into) {}

 private:
  Outcome attempt(milliseconds deadline) override {
    Tensor tensor;
    const Outcome outcome = box_.take(key_, tensor, deadline);
    if (outcome == Outcome::kPeerGone) fail_with(outcome);
    if (outcome != Outcome::kDone) return outcome;
    if (tensor.type() != into_.type) {
      throw TransportError(fmt::format("receive {} from rank {}: it is {}, expected {}", to_string(key_),
                                       from_, tensor.type().to_string(), into_.type.to_string()));
    }
    copy(std::as_const(tensor).view(), into_);
    return outcome;
  }
  [[noreturn]] void fail_with(Outcome outcome) const override {
    fail("receive", key_, from_, outcome, "has sent", deadline());
  }

  Mailbox& box_;
  int from_;
  MessageKey key_;
  TensorView into_;
};

class MemoryLink : public Link {
 public:
  MemoryLink(std::shared_ptr<Mailboxes> mailboxes, int rank, milliseconds deadline)
      : mailboxes_(std::move(mailboxes)), rank_(rank), deadline_(deadline) {}

  ~MemoryLink() override {
    for (int peer = 0; peer < mailboxes_->ranks(); ++peer) {
      if (peer == rank_) continue;
      mailboxes_->between(rank_, peer).leave_writer();
      mailboxes_->between(peer, rank_).leave_reader();
    }
  }

  std::unique_ptr<PendingTransfer> begin_send(int to_rank, const MessageKey& key,
                                              ConstTensorView tensor) override {
    auto made =
        std::make_unique<MemorySend>(mailboxes_->between(rank_, to_rank), to_rank, key, tensor, deadline_);
    made->test();
    return made;
  }

  std::unique_ptr<PendingTransfer> begin_receive(int from_rank, const MessageKey& key,
                                                 TensorView into) override {
    return std::make_unique<MemoryReceive>(mailboxes_->between(from_rank, rank_), from_rank, key, into,
                                           deadline_);
  }

  // Tensors that were sent lie in the peer's mailbox.
  void flush() override {}

 private:
  std::shared_ptr<Mailboxes> mailboxes_;
  int rank_;
  milliseconds deadline_;
};

}  // namespace

std::vector<std::unique_ptr<Link>> make_memory_links(int ranks, milliseconds deadline,
                                                     std::size_t max_messages) {
  const auto mailboxes = std::make_shared<Mailboxes>(ranks, max_messages);
  std::vector<std::unique_ptr<Link>> links;
  for (int rank = 0; rank < ranks; ++rank) {
    links.push_back(std::make_unique<MemoryLink>(mailboxes, rank, deadline));
  }
  return links;
}

}  // namespace rookery
