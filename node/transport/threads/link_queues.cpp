#include "node/transport/threads/link_queues.hpp"

#include <algorithm>
#include <cstring>
#include <utility>

#include "models/base/error.hpp"
#include "models/base/libraries/format.hpp"

namespace rookery {
namespace {

std::string to_text(Clock::duration duration) {
  const double seconds = std::chrono::duration<double>(duration).count();
  return fmt::format("{:.{}f} s", seconds, seconds < 1 ? 2 : 1);
}

}  // namespace

LinkQueues::LinkQueues(Waker& waker, const std::string& group, std::vector<std::string> peers,
                       std::uint64_t send_budget, std::uint64_t release_step, std::size_t chunk_bytes,
                       std::chrono::milliseconds deadline)
    : waker_(waker),
      place_(group.empty() ? "" : " in " + group),
      send_budget_(send_budget),
      release_step_(release_step),
      chunk_bytes_(chunk_bytes),
      deadline_(deadline),
      peers_(peers.size()) {
  for (std::size_t i = 0; i < peers.size(); ++i) {
    peers_[i].name = std::move(peers[i]);
    peers_[i].progressed = Clock::now();
  }
}

// ---- the group's thread ----

template <typename Ready, typename TimedOut>
void LinkQueues::wait(Lock& lock, const Meanwhile& meanwhile, int peer, const MessageKey* key, Ready ready,
                      TimedOut timed_out) {
  if (failure_ || ready()) return;
  waiting_for_ = peer;
  awaited_ = key;
  const auto deadline = Clock::now() + deadline_;
  const auto is_over = [&] { return failure_ || ready(); };
  lock.unlock();
  const std::shared_ptr<void> kept = meanwhile(
      [&] {
        const Lock for_a_look(mutex_);
        return is_over();
      },
      deadline);
  lock.lock();
  const bool in_time = changed_.wait_until(lock, deadline, is_over);
  waiting_for_ = -1;
  awaited_ = nullptr;
  if (!in_time) throw TransportError(timed_out());
}

void LinkQueues::throw_failure(const std::string& doing) const {
  if (!failure_) return;
  if (failure_signal_ != 0) throw Interrupted(failure_signal_, *failure_);
  throw RunEnded(doing.empty() ? *failure_ : fmt::format("{} (here: {}{})", *failure_, doing, place_));
}

void LinkQueues::wait_begun() {
  Lock lock(mutex_);
  changed_.wait(lock, [&] { return failure_ || begun_; });
  throw_failure("");
}

bool LinkQueues::is_room(const Peer& peer, std::uint64_t cost) const {
  return peer.outgoing == 0 || peer.outgoing + cost <= send_budget_;
}

void LinkQueues::wait_for_room(int to, const MessageKey& key, std::uint64_t bytes,
                               const Meanwhile& meanwhile) {
  Lock lock(mutex_);
  ++progress_;
  const Peer& peer = peers_.at(to);
  const std::uint64_t cost = message_cost(bytes, chunk_bytes_);
  wait(
      lock, meanwhile, to, nullptr, [&] { return is_room(peer, cost) || peer.departed; },
      [&] {
        return fmt::format("sending {}: {} took nothing for {}, {} bytes are on the way{}", to_string(key),
                           peer.name, to_text(deadline_), peer.outgoing, describe(peer));
      });
}

bool LinkQueues::has_room(int to, const MessageKey& key, std::uint64_t bytes) {
  const Lock lock(mutex_);
  const auto doing = [&] { return fmt::format("sending {}", to_string(key)); };
  if (failure_) throw_failure(doing());
  const Peer& peer = peers_.at(to);
  if (peer.departed) throw TransportError(fmt::format("{}: {} has ended its run", doing(), peer.name));
  return is_room(peer, message_cost(bytes, chunk_bytes_));
}

void LinkQueues::put(int to, OutgoingMessage message) {
  const Lock lock(mutex_);
  ++progress_;
  Peer& peer = peers_.at(to);
  peer.outgoing += message_cost(message.type.bytes(), chunk_bytes_);
  peer.sent += message.type.bytes();
  peer.outbox.push_back(std::move(message));
}

void LinkQueues::wait_for(int from, const MessageKey& key, const Meanwhile& meanwhile) {
  Lock lock(mutex_);
  ++progress_;
  const Peer& peer = peers_.at(from);
  wait(
      lock, meanwhile, from, &key, [&] { return peer.inbox.contains(key) || peer.departed; },
      [&] {
        return fmt::format("waiting for {}: {} has not sent it for {}{}", to_string(key), peer.name,
                           to_text(deadline_), describe(peer));
      });
}

void LinkQueues::offer_memory(int from, const MessageKey& key, TensorView into) {
  const Lock lock(mutex_);
  offered_ = {from, key, into};
}

bool LinkQueues::withdraw_memory() {
  const Lock lock(mutex_);
  const auto offered = std::exchange(offered_, std::nullopt);
  return offered && offered->is_in_use;
}

std::optional<IncomingMessage> LinkQueues::take(int from, const MessageKey& key) {
  const Lock lock(mutex_);
  const auto doing = [&] { return fmt::format("waiting for {}", to_string(key)); };
  if (failure_) throw_failure(doing());
  Peer& peer = peers_.at(from);
  auto node = peer.inbox.extract(key);
  if (node.empty()) {
    if (!peer.departed) return std::nullopt;
    throw TransportError(fmt::format("{}: {} has ended its run without sending it", doing(), peer.name));
  }
  ++progress_;
  peer.released += node.mapped().cost;
  if (peer.released >= release_step_) waker_.wake_up();
  return std::move(node.mapped());
}

void LinkQueues::wait_flushed(const Meanwhile& meanwhile) {
  Lock lock(mutex_);
  const auto flushed = [&] {
    return std::all_of(peers_.begin(), peers_.end(), [](const Peer& peer) { return peer.outgoing == 0; });
  };
  if (flushed()) return;
  wants_flush_ = true;
  waker_.wake_up();
  wait(lock, meanwhile, -1, nullptr, flushed, [&] {
    std::string names;
    for (const Peer& peer : peers_) {
      if (peer.outgoing != 0) names += (names.empty() ? "" : ", ") + peer.name + describe(peer);
    }
    return fmt::format("not everything sent has arrived after {}: {}", to_text(deadline_), names);
  });
  if (!flushed()) throw_failure("waiting until everything sent has arrived");
}

void LinkQueues::wait_left(const Meanwhile& meanwhile) {
  Lock lock(mutex_);
  wants_leave_ = true;
  waker_.wake_up();
  wait(
      lock, meanwhile, -1, nullptr, [&] { return ended_; },
      [&] {
        std::string names;
        for (const Peer& peer : peers_) {
          if (!peer.departed) names += (names.empty() ? "" : ", ") + peer.name;
        }
        return fmt::format("this node finished; {} did not within {}", names, to_text(deadline_));
      });
  if (!ended_) throw_failure("");
}

std::string LinkQueues::describe(const Peer& peer) const {
  if (!peer.waiting_for.empty()) return fmt::format(" (it waits for {} itself)", peer.waiting_for);
  return fmt::format(" (it is alive; its training thread has stood still for {})",
                     to_text(Clock::now() - peer.progressed));
}

// ---- any thread ----

void LinkQueues::want_stop(StopNotice notice) {
  const Lock lock(mutex_);
  if (!wants_stop_) wants_stop_ = std::move(notice);
  waker_.wake_up();
}

void LinkQueues::tell_status(const CtlStatus& status) {
  const Lock lock(mutex_);
  status_out_ = status;
}

std::optional<CtlStatus> LinkQueues::heard_status() const {
  const Lock lock(mutex_);
  return status_in_;
}

void LinkQueues::tell_figures(const CtlFigures& figures) {
  const Lock lock(mutex_);
  figures_out_ = figures;
}

std::optional<CtlFigures> LinkQueues::take_figures(int from) {
  const Lock lock(mutex_);
  return std::exchange(peers_.at(from).figures, std::nullopt);
}

std::vector<std::uint64_t> LinkQueues::bytes_sent() const {
  const Lock lock(mutex_);
  std::vector<std::uint64_t> sent;
  for (const Peer& peer : peers_) sent.push_back(peer.sent);
  return sent;
}

// ---- I/O ----

void LinkQueues::collect(Requests& requests) {
  requests.messages.resize(peers_.size());
  requests.released.resize(peers_.size());
  const Lock lock(mutex_);
  for (std::size_t i = 0; i < peers_.size(); ++i) {
    requests.messages[i].clear();
    std::swap(requests.messages[i], peers_[i].outbox);
    requests.released[i] = std::exchange(peers_[i].released, 0);
  }
  requests.flush = std::exchange(wants_flush_, false);
  requests.leave = std::exchange(wants_leave_, false);
  requests.stop = std::exchange(wants_stop_, std::nullopt);
  requests.status = std::exchange(status_out_, std::nullopt);
  requests.figures = std::exchange(figures_out_, std::nullopt);
  requests.progress = progress_;
  requests.waiting_for = waiting_for_;
}

void LinkQueues::begin() {
  const Lock lock(mutex_);
  begun_ = true;
  changed_.notify_all();
}

std::byte* LinkQueues::memory_for(int from, const MessageKey& key, const TensorType& type) {
  const Lock lock(mutex_);
  const bool fits = offered_ && !offered_->is_in_use && offered_->peer == from && offered_->key == key &&
                    offered_->into.type == type;
  if (!fits) return nullptr;
  offered_->is_in_use = true;
  return offered_->into.data;
}

bool LinkQueues::deliver(int from, IncomingMessage message) {
  const Lock lock(mutex_);
  auto& inbox = peers_.at(from).inbox;
  const MessageKey key = message.key;
  if (inbox.contains(key)) throw TransportError(fmt::format("{} came twice", to_string(key)));
  if (offered_ && offered_->is_in_use && message.bytes.get() == offered_->into.data) offered_.reset();
  inbox.emplace(key, std::move(message));
  const bool is_awaited = waiting_for_ == from && awaited_ != nullptr && *awaited_ == key;
  if (is_awaited) changed_.notify_all();
  return is_awaited;
}

void LinkQueues::leave_memory(int from, const MessageKey& key, const std::byte* memory,
                              const BufferPool& buffers) {
  const Lock lock(mutex_);
  auto& inbox = peers_.at(from).inbox;
  const auto found = inbox.find(key);
  if (found == inbox.end() || found->second.bytes.get() != memory) return;
  const std::size_t size = found->second.type.bytes();
  found->second.bytes = buffers.take(size);
  std::memcpy(found->second.bytes.get(), memory, size);
}

void LinkQueues::acknowledged(int peer, std::uint64_t cost) {
  if (cost == 0) return;
  const Lock lock(mutex_);
  peers_.at(peer).outgoing -= cost;
  changed_.notify_all();
}

void LinkQueues::forget(int peer) {
  const Lock lock(mutex_);
  peers_.at(peer).inbox.clear();
  peers_.at(peer).released = 0;
}

void LinkQueues::depart(int peer) {
  const Lock lock(mutex_);
  peers_.at(peer).departed = true;
  changed_.notify_all();
}

void LinkQueues::end() {
  const Lock lock(mutex_);
  ended_ = true;
  changed_.notify_all();
}

void LinkQueues::fail(const std::string& message, int signal) {
  const Lock lock(mutex_);
  if (!failure_) {
    failure_ = message;
    failure_signal_ = signal;
  }
  changed_.notify_all();
}

void LinkQueues::hear_status(const CtlStatus& status) {
  const Lock lock(mutex_);
  status_in_ = status;
}

void LinkQueues::hear_figures(int from, const CtlFigures& figures) {
  const Lock lock(mutex_);
  peers_.at(from).figures = figures;
}

void LinkQueues::hear_progress(int from, std::uint64_t progress, const std::string& waiting_for) {
  const Lock lock(mutex_);
  Peer& peer = peers_.at(from);
  if (std::exchange(peer.progress, progress) != progress) peer.progressed = Clock::now();
  peer.waiting_for = waiting_for;
}

}  // namespace rookery
