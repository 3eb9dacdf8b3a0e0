#include "node/transport/zmq_link.hpp"

#include <algorithm>
#include <cstring>
#include <utility>

#include "models/base/error.hpp"
#include "models/base/libraries/format.hpp"
#include "node/transport/io_loop.hpp"

namespace rookery {
namespace {

// What a group's thread does while it would only wait.
LinkQueues::Meanwhile doing_io(IoLoop& loop) {
  return [&loop](const std::function<bool()>& ready, Clock::time_point deadline) {
    return loop.drive(ready, deadline);
  };
}

[[noreturn]] void throw_other_type(const Group& group, int member, const MessageKey& key,
                                   const TensorType& came, const TensorType& expected) {
  throw TransportError(fmt::format("receiving {}: {} sent {}, this node expects {}", to_string(key),
                                   group.places[member].name, came.to_string(), expected.to_string()));
}

// Done once it is in the outbox; the I/O does the rest.
class Send final : public PendingTransfer {
 public:
  Send(IoLoop& loop, Group& group, int member, MessageKey key, ConstTensorView tensor)
      : loop_(loop), group_(group), member_(member), key_(std::move(key)), tensor_(tensor) {}

  bool test() override {
    const std::size_t size = tensor_.type.bytes();
    if (is_done_ || !group_.queues.has_room(member_, key_, size)) return is_done_;
    OutgoingMessage message{key_, tensor_.type, group_.options.buffers.take(size)};
    if (size != 0) std::memcpy(message.bytes.get(), tensor_.data, size);
    group_.queues.put(member_, std::move(message));
    loop_.serve();
    return is_done_ = true;
  }
  void wait() override {
    while (!test()) group_.queues.wait_for_room(member_, key_, tensor_.type.bytes(), doing_io(loop_));
  }

 private:
  IoLoop& loop_;
  Group& group_;
  int member_;
  MessageKey key_;
  ConstTensorView tensor_;
  bool is_done_ = false;
};

// Has the message that is waited for arrive in the tensor itself.
class ArrivalInPlace {
 public:
  ArrivalInPlace(IoLoop& loop, Group& group, int member, const MessageKey& key, TensorView into)
      : loop_(loop), group_(group), member_(member), key_(key), memory_(into.data) {
    group_.queues.offer_memory(member, key, into);
  }
  ~ArrivalInPlace() {
    if (group_.queues.withdraw_memory() || !is_taken_) loop_.leave_memory(group_, member_, key_, memory_);
  }
  // The wait is over, and the message is taken at once, or never, where the group has failed. Else it may
  // stay in the inbox while the tensor is its owner's again.
  void taken() { is_taken_ = true; }
  ArrivalInPlace(const ArrivalInPlace&) = delete;
  ArrivalInPlace& operator=(const ArrivalInPlace&) = delete;

 private:
  IoLoop& loop_;
  Group& group_;
  int member_;
  const MessageKey& key_;
  const std::byte* memory_;
  bool is_taken_ = false;
};

// Done once the message that the I/O has put into the inbox was copied from there, or lies where it should.
class Receive final : public PendingTransfer {
 public:
  Receive(IoLoop& loop, Group& group, int member, MessageKey key, TensorView into)
      : loop_(loop), group_(group), member_(member), key_(std::move(key)), into_(into) {}

  bool test() override {
    if (is_done_) return true;
    const auto message = group_.queues.take(member_, key_);
    if (!message) return false;
    if (message->type != into_.type) throw_other_type(group_, member_, key_, message->type, into_.type);
    if (message->bytes.get() != into_.data) copy(ConstTensorView{message->type, message->bytes.get()}, into_);
    return is_done_ = true;
  }
  void wait() override {
    while (!test()) {
      ArrivalInPlace arrival(loop_, group_, member_, key_, into_);
      group_.queues.wait_for(member_, key_, doing_io(loop_));
      arrival.taken();
    }
  }

 private:
  IoLoop& loop_;
  Group& group_;
  int member_;
  MessageKey key_;
  TensorView into_;
  bool is_done_ = false;
};

}  // namespace

ZmqLink::ZmqLink(std::shared_ptr<IoLoop> loop, std::shared_ptr<Group> group)
    : loop_(std::move(loop)), group_(std::move(group)) {}

ZmqLink::~ZmqLink() {
  stop("failed: it ended without saying why");
}

void ZmqLink::join() {
  group_->queues.wait_begun();
}

std::unique_ptr<PendingTransfer> ZmqLink::begin_send(int to_rank, const MessageKey& key,
                                                     ConstTensorView tensor) {
  check_size(key, tensor.type);
  auto begun = std::make_unique<Send>(*loop_, *group_, group_->member_with(to_rank), key, tensor);
  begun->test();
  return begun;
}

std::unique_ptr<PendingTransfer> ZmqLink::begin_receive(int from_rank, const MessageKey& key,
                                                        TensorView into) {
  return std::make_unique<Receive>(*loop_, *group_, group_->member_with(from_rank), key, into);
}

MessageBytes ZmqLink::receive_bytes(int from_rank, const MessageKey& key, const TensorType& type) {
  const int member = group_->member_with(from_rank);
  auto message = group_->queues.take(member, key);
  while (!message) {
    group_->queues.wait_for(member, key, doing_io(*loop_));
    message = group_->queues.take(member, key);
  }
  if (message->type != type) throw_other_type(*group_, member, key, message->type, type);
  return std::move(message->bytes);
}

void ZmqLink::send_bytes(int to_rank, const MessageKey& key, const TensorType& type, MessageBytes&& bytes) {
  check_size(key, type);
  const int member = group_->member_with(to_rank);
  while (!group_->queues.has_room(member, key, type.bytes()))
    group_->queues.wait_for_room(member, key, type.bytes(), doing_io(*loop_));
  group_->queues.put(member, {key, type, std::move(bytes)});
  loop_->serve();
}

MessageBytes ZmqLink::make_bytes(std::uint64_t bytes) {
  return group_->options.buffers.take(bytes);
}

void ZmqLink::check_size(const MessageKey& key, const TensorType& type) const {
  if (type.bytes() <= group_->options.max_message_bytes) return;
  throw TransportError(fmt::format("sending {}: {} has {} bytes, a message of this plan at most {}",
                                   to_string(key), type.to_string(), type.bytes(),
                                   group_->options.max_message_bytes));
}

void ZmqLink::flush() {
  group_->queues.wait_flushed(doing_io(*loop_));
}

void ZmqLink::leave() {
  flush();
  group_->queues.wait_left(doing_io(*loop_));
}

void ZmqLink::stop(const std::string& reason) {
  group_->queues.want_stop({group_->node, reason});
  loop_->serve();
}

void ZmqLink::tell_status(const RunStatus& status) {
  group_->queues.tell_status(
      {group_->options.group, status.epoch, status.step, status.loss, status.accuracy.value_or(-1)});
}

std::optional<RunStatus> ZmqLink::heard_status() const {
  const auto heard = group_->queues.heard_status();
  if (!heard) return std::nullopt;
  RunStatus status{heard->epoch, heard->step, heard->loss, std::nullopt};
  if (heard->accuracy >= 0) status.accuracy = heard->accuracy;
  return status;
}

void ZmqLink::tell_figures(const NodeFigures& figures) {
  CtlFigures told{.group = group_->options.group, .figures = figures};
  std::vector<std::uint64_t>& sent = told.figures.sent;
  sent.resize(std::min(sent.size(), NodeFigures::kMostTold));
  group_->queues.tell_figures(told);
}

std::optional<NodeFigures> ZmqLink::take_figures(int from_rank) {
  auto told = group_->queues.take_figures(group_->member_with(from_rank));
  return told ? std::optional(std::move(told->figures)) : std::nullopt;
}

std::vector<std::uint64_t> ZmqLink::bytes_sent() const {
  std::vector<std::uint64_t> sent(group_->options.members.size());
  const std::vector<std::uint64_t> by_member = group_->queues.bytes_sent();
  for (std::size_t member = 0; member < by_member.size(); ++member)
    sent.at(static_cast<std::size_t>(group_->places[member].rank)) = by_member[member];
  return sent;
}

}  // namespace rookery
