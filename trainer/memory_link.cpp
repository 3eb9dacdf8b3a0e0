#include "trainer/memory_link.hpp"

#include <fmt/chrono.h>
#include <fmt/format.h>

#include <algorithm>
#include <condition_variable>
#include <map>
#include <mutex>
#include <utility>

#include "models/base/error.hpp"

namespace rookery {
namespace {

using std::chrono::milliseconds;

// Why a wait ended without what was waited for.
enum class Outcome : std::uint8_t { kDone, kDeadline, kPeerGone };

// The tensors under way from one stage to another.
class Mailbox {
 public:
  explicit Mailbox(std::size_t capacity) : capacity_(capacity) {}

  Outcome put(const MessageKey& key, ConstTensorView tensor, milliseconds deadline) {
    Tensor copied(tensor.type);
    copy(tensor, copied.view());
    std::unique_lock lock(mutex_);
    const bool ready =
        changed_.wait_for(lock, deadline, [&] { return reader_gone_ || waiting_.size() < capacity_; });
    if (!ready) return Outcome::kDeadline;
    if (reader_gone_) return Outcome::kPeerGone;
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

// One mailbox for every ordered pair of stages.
class Mailboxes {
 public:
  Mailboxes(int stages, std::size_t capacity) : stages_(stages) {
    for (int i = 0; i < stages * stages; ++i) boxes_.push_back(std::make_unique<Mailbox>(capacity));
  }
  int stages() const { return stages_; }
  Mailbox& between(int from, int to) {
    ROOKERY_CHECK(from != to && std::min(from, to) >= 0 && std::max(from, to) < stages_,
                  "a message from {} to {} of {}", from, to, stages_);
    return *boxes_[static_cast<std::size_t>(from) * static_cast<std::size_t>(stages_) +
                   static_cast<std::size_t>(to)];
  }

 private:
  int stages_;
  std::vector<std::unique_ptr<Mailbox>> boxes_;
};

class MemoryLink : public Link {
 public:
  MemoryLink(std::shared_ptr<Mailboxes> mailboxes, int stage, milliseconds deadline)
      : mailboxes_(std::move(mailboxes)), stage_(stage), deadline_(deadline) {}

  ~MemoryLink() override {
    for (int peer = 0; peer < mailboxes_->stages(); ++peer) {
      if (peer == stage_) continue;
      mailboxes_->between(stage_, peer).leave_writer();
      mailboxes_->between(peer, stage_).leave_reader();
    }
  }

  void send(int to_stage, const MessageKey& key, ConstTensorView tensor) override {
    const Outcome outcome = mailboxes_->between(stage_, to_stage).put(key, tensor, deadline_);
    if (outcome != Outcome::kDone) fail("send", key, "to", to_stage, outcome, "has taken");
  }

  void receive(int from_stage, const MessageKey& key, TensorView into) override {
    Tensor tensor;
    const Outcome outcome = mailboxes_->between(from_stage, stage_).take(key, tensor, deadline_);
    if (outcome != Outcome::kDone) fail("receive", key, "from", from_stage, outcome, "has sent");
    if (tensor.type() != into.type) {
      throw TransportError(fmt::format("receive {} from stage {}: it is {}, expected {}", to_string(key),
                                       from_stage, tensor.type().to_string(), into.type.to_string()));
    }
    copy(std::as_const(tensor).view(), into);
  }

  // Tensors that were sent lie in the peer's mailbox.
  void flush() override {}

 private:
  [[noreturn]] void fail(std::string_view doing, const MessageKey& key, std::string_view direction, int peer,
                         Outcome outcome, std::string_view missing) const {
    const std::string reason = outcome == Outcome::kPeerGone
                                   ? std::string("it has ended")
                                   : fmt::format("it {} nothing for {}", missing, deadline_);
    throw TransportError(
        fmt::format("{} {} {} stage {}: {}", doing, to_string(key), direction, peer, reason));
  }

  std::shared_ptr<Mailboxes> mailboxes_;
  int stage_;
  milliseconds deadline_;
};

}  // namespace

std::vector<std::unique_ptr<Link>> make_memory_links(int stages, milliseconds deadline,
                                                     std::size_t max_messages) {
  const auto mailboxes = std::make_shared<Mailboxes>(stages, max_messages);
  std::vector<std::unique_ptr<Link>> links;
  for (int stage = 0; stage < stages; ++stage) {
    links.push_back(std::make_unique<MemoryLink>(mailboxes, stage, deadline));
  }
  return links;
}

}  // namespace rookery
