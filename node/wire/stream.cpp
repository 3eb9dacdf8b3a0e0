#include "node/wire/stream.hpp"

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <utility>

#include "models/base/check.hpp"
#include "models/base/error.hpp"
#include "models/base/libraries/format.hpp"

namespace rookery {
namespace {

// Small messages lie wherever they came in a packet of the network.
bool lies_aligned(const std::byte* bytes) {
  return reinterpret_cast<std::uintptr_t>(bytes) % alignof(double) == 0;
}

SharedBytes borrowed(std::byte* memory) {
  return {memory, [](std::byte*) {}};
}

}  // namespace

Payload Payload::of(std::span<const std::byte> bytes, std::function<SharedBytes()> keep) {
  const auto copy = [bytes](std::byte* into) {
    if (!bytes.empty()) std::memcpy(into, bytes.data(), bytes.size());
  };
  return {bytes.size(), copy, std::move(keep), lies_aligned(bytes.data())};
}

std::uint64_t message_cost(std::uint64_t bytes, std::size_t chunk_bytes) {
  const std::uint64_t chunks = std::max<std::uint64_t>(1, (bytes + chunk_bytes - 1) / chunk_bytes);
  return bytes + chunks * chunk_cost(0);
}

void SendStream::push(const OutgoingMessage& message) {
  DataChunk chunk{
      .group = group_, .sequence = first_ + chunks_.size(), .key = message.key, .type = message.type};
  chunk.total = message.type.bytes();
  do {
    const std::size_t size = std::min<std::size_t>(chunk_bytes_, chunk.total - chunk.offset);
    end_ += chunk_cost(size);
    chunks_.push_back({encode(chunk), message.bytes, {message.bytes.get() + chunk.offset, size}, end_});
    chunk.offset += size;
    ++chunk.sequence;
  } while (chunk.offset < chunk.total);
}

bool SendStream::can_send() const {
  return !suspended_ && sent_ != chunks_.size() && chunks_[sent_].end <= credit_;
}

const OutgoingChunk* SendStream::next(Clock::time_point now) {
  if (!can_send()) return nullptr;
  if (sent_ == 0) last_progress_ = now;
  const OutgoingChunk* chunk = &chunks_[sent_++];
  most_sent_ = std::max(most_sent_, first_ + sent_);
  return chunk;
}

std::uint64_t SendStream::acknowledge(const StreamPosition& position, Clock::time_point now) {
  if (position.received > most_sent_) {
    throw TransportError(fmt::format("acknowledges {} chunks of {} sent", position.received, most_sent_));
  }
  credit_ = std::max(credit_, position.credit);
  if (position.received <= first_) return 0;
  const std::uint64_t before = first_begin_;
  while (first_ < position.received) {
    first_begin_ = chunks_.front().end;
    chunks_.pop_front();
    ++first_;
    if (sent_ > 0) --sent_;
  }
  last_progress_ = now;
  return first_begin_ - before;
}

std::uint64_t SendStream::resume(const StreamPosition& position, Clock::time_point now) {
  const std::uint64_t acknowledged = acknowledge(position, now);
  sent_ = 0;
  suspended_ = false;
  last_progress_ = now;
  return acknowledged;
}

std::optional<Clock::time_point> SendStream::stalled_since() const {
  if (suspended_ || sent_ == 0) return std::nullopt;
  return last_progress_;
}

void ReceiveStream::check(const DataChunk& chunk, std::size_t payload) const {
  if (payload > kMaxChunkBytes || payload > chunk.total - chunk.offset) {
    throw TransportError(fmt::format("{}: {} bytes at offset {} of {}", to_string(chunk.key), payload,
                                     chunk.offset, chunk.total));
  }
  if (payload == 0 && chunk.total != 0) throw TransportError(to_string(chunk.key) + ": an empty chunk");
  if (chunk.total > max_message_bytes_) {
    throw TransportError(fmt::format("{}: {} bytes, a message of this plan has at most {}",
                                     to_string(chunk.key), chunk.total, max_message_bytes_));
  }
  check_credit(chunk, payload);
  const bool fits =
      partial_ ? chunk.key == partial_->key && chunk.type == partial_->type && chunk.offset == filled_
               : chunk.offset == 0;
  if (!fits) throw TransportError(fmt::format("{}: a piece out of place", to_string(chunk.key)));
}

void ReceiveStream::check_credit(const DataChunk& chunk, std::size_t payload) const {
  if (arrived_ + held_cost_ + chunk_cost(payload) > granted_)
    throw TransportError(fmt::format("{}: sent beyond its credit", to_string(chunk.key)));
}

ReceiveStream::Verdict ReceiveStream::offer(const DataChunk& chunk, const Payload& payload,
                                            std::byte* memory) {
  if (chunk.sequence < received_) return Verdict::kDuplicate;
  if (chunk.sequence > received_) return hold(chunk, payload);
  accept(chunk, payload, memory);
  while (!held_.empty() && held_.begin()->first <= received_) {
    const Held next = std::move(held_.extract(held_.begin()).mapped());
    held_cost_ -= chunk_cost(next.size);
    if (next.chunk.sequence == received_)
      accept(next.chunk, Payload::of({next.bytes.get(), next.size}, [&next] { return next.bytes; }), nullptr);
  }
  return Verdict::kAccepted;
}

ReceiveStream::Verdict ReceiveStream::hold(const DataChunk& chunk, const Payload& payload) {
  if (held_.contains(chunk.sequence)) return Verdict::kDuplicate;
  check_credit(chunk, payload.size);
  SharedBytes bytes = payload.keep ? payload.keep() : buffers_.take(payload.size);
  if (!payload.keep) payload.copy(bytes.get());
  held_.emplace(chunk.sequence, Held{chunk, std::move(bytes), payload.size});
  held_cost_ += chunk_cost(payload.size);
  return Verdict::kHeld;
}

void ReceiveStream::accept(const DataChunk& chunk, const Payload& payload, std::byte* memory) {
  check(chunk, payload.size);
  const bool is_kept = memory == nullptr && keeps_arrivals_ && payload.keep && payload.is_aligned &&
                       payload.size == chunk.total;
  SharedBytes bytes = partial_            ? partial_->bytes
                      : memory != nullptr ? borrowed(memory)
                      : is_kept           ? payload.keep()
                                          : buffers_.take(chunk.total);
  if (!is_kept) payload.copy(bytes.get() + filled_);
  if (!partial_) partial_ = IncomingMessage{chunk.key, chunk.type, std::move(bytes), 0};
  filled_ += payload.size;
  partial_->cost += chunk_cost(payload.size);
  arrived_ += chunk_cost(payload.size);
  ++received_;
  if (filled_ < chunk.total) return;
  filled_ = 0;
  complete_.push_back(*std::exchange(partial_, std::nullopt));
}

bool ReceiveStream::leave_memory(const std::byte* memory) {
  if (!partial_ || partial_->bytes.get() != memory) return false;
  partial_->bytes = buffers_.take(partial_->type.bytes());
  std::memcpy(partial_->bytes.get(), memory, filled_);
  return true;
}

std::optional<IncomingMessage> ReceiveStream::take_message() {
  if (complete_.empty()) return std::nullopt;
  std::optional<IncomingMessage> first = std::move(complete_.front());
  complete_.pop_front();
  return first;
}

void ReceiveStream::announced() {
  announced_arrived_ = arrived_;
  announced_credit_ = granted_;
}

}  // namespace rookery
