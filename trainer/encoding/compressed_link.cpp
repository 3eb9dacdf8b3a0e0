#include "trainer/encoding/compressed_link.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <span>
#include <utility>
#include <vector>

#include "models/base/check.hpp"
#include "trainer/encoding/codec.hpp"

namespace rookery {
namespace {

TensorType encoded_type(const Codec& codec, const TensorType& type) {
  const std::size_t bytes = codec.bytes(static_cast<std::size_t>(type.shape.elements()));
  return {DType::kU8, Shape{static_cast<std::int64_t>(bytes)}};
}

// Encodes numbers with what was lost of those before, and keeps what is lost of them.
void encode_with(std::vector<float>& lost, Codec& codec, std::span<const float> numbers, std::byte* bytes) {
  std::vector<float> made(codec.block());
  for_each_block(codec, numbers, bytes, [&](std::span<const float> block, std::byte* to) {
    const std::span<float> kept =
        std::span(lost).subspan(static_cast<std::size_t>(block.data() - numbers.data()), block.size());
    for (std::size_t i = 0; i < block.size(); ++i) kept[i] += block[i];
    codec.encode(kept, to);
    codec.decode(to, std::span(made).first(block.size()));
    for (std::size_t i = 0; i < block.size(); ++i) kept[i] -= made[i];
  });
}

// Keeps the encoded bytes until they are sent.
class EncodedSend final : public PendingTransfer {
 public:
  EncodedSend(MessageBytes bytes, std::unique_ptr<PendingTransfer> beneath)
      : bytes_(std::move(bytes)), beneath_(std::move(beneath)) {}
  bool test() override { return beneath_->test(); }
  void wait() override { beneath_->wait(); }

 private:
  MessageBytes bytes_;
  std::unique_ptr<PendingTransfer> beneath_;  // reads bytes_, and so goes first
};

class EncodedReceive final : public PendingTransfer {
 public:
  EncodedReceive(Link& link, int from_rank, const MessageKey& key, std::unique_ptr<Codec> codec,
                 TensorView into)
      : codec_(std::move(codec)), into_(into) {
    const TensorType type = encoded_type(*codec_, into.type);
    bytes_ = link.make_bytes(type.bytes());
    beneath_ = link.begin_receive(from_rank, key, {type, bytes_.get()});
  }
  bool test() override {
    if (!is_done_ && beneath_->test()) decode();
    return is_done_;
  }
  void wait() override {
    if (is_done_) return;
    beneath_->wait();
    decode();
  }

 private:
  void decode() {
    for_each_block(*codec_, into_.as<float>(), std::as_const(bytes_).get(),
                   [&](std::span<float> block, const std::byte* bytes) { codec_->decode(bytes, block); });
    is_done_ = true;
  }

  std::unique_ptr<Codec> codec_;
  TensorView into_;
  MessageBytes bytes_;
  std::unique_ptr<PendingTransfer> beneath_;  // writes bytes_, and so goes first
  bool is_done_ = false;
};

bool is_activation(const MessageKey& key) {
  return key.kind == MessageKind::kForwardActivation || key.kind == MessageKind::kForwardActivationAgain;
}

}  // namespace

// Those of a value are done in the order in which they were begun, whichever is asked for: what is sent of a
// sample, and of which type, depends on all before.
class CompressedLink::DeltaReceive final : public PendingTransfer {
 public:
  DeltaReceive(CompressedLink& link, int from_rank, MessageKey key, TensorView into)
      : link_(link), from_(from_rank), key_(std::move(key)), into_(into), queue_(link.receives_[key_.edge]) {
    queue_.push_back(this);
  }
  ~DeltaReceive() override { std::erase(queue_, this); }
  DeltaReceive(const DeltaReceive&) = delete;
  DeltaReceive& operator=(const DeltaReceive&) = delete;

  bool test() override {
    while (!is_done_)
      if (!queue_.front()->test_first()) return false;
    return true;
  }
  void wait() override {
    while (!is_done_) {
      DeltaReceive& first = *queue_.front();
      first.begin();
      first.beneath_->wait();
      first.finish();
    }
  }

 private:
  void begin() {
    if (beneath_ != nullptr) return;
    const TensorType type = link_.reconstructions_->begin(key_, into_.type);
    bytes_ = link_.beneath_.make_bytes(type.bytes());
    beneath_ = link_.beneath_.begin_receive(from_, key_, {type, bytes_.get()});
  }
  bool test_first() {
    begin();
    if (!beneath_->test()) return false;
    finish();
    return true;
  }
  void finish() {
    link_.reconstructions_->decode(key_, bytes_.get(), into_);
    is_done_ = true;
    std::erase(queue_, this);
  }

  CompressedLink& link_;
  const int from_;
  const MessageKey key_;
  const TensorView into_;
  std::deque<DeltaReceive*>& queue_;
  MessageBytes bytes_;
  std::unique_ptr<PendingTransfer> beneath_;  // writes bytes_, and so goes first
  bool is_done_ = false;
};

CompressedLink::CompressedLink(Link& beneath, int rank, EdgeEncoding encoding,
                               Reconstructions* reconstructions)
    : beneath_(beneath),
      rank_(rank),
      encoding_(std::move(encoding)),
      first_of_deltas_(encoding_.first_of_deltas()),
      reconstructions_(reconstructions) {}

bool CompressedLink::is_delta(Hop hop, const MessageKey& key, const TensorType& type) const {
  return reconstructions_ != nullptr && is_activation(key) && !key.validation &&
         encoding_.is_delta(hop, key.edge, type) && reconstructions_->has(key.edge);
}

Compression CompressedLink::compression_of(Hop hop, const MessageKey& key, const TensorType& type) const {
  if (is_delta(hop, key, type)) return encoding_.of_activation(hop, key.edge, type);
  if (is_activation(key)) return first_of_deltas_.of_activation(hop, key.edge, type);
  if (key.kind == MessageKind::kBackwardGradient) return encoding_.of_gradient(hop, type);
  return {};
}

// The first micro-batch of a step is the largest.
CompressedLink::Lost* CompressedLink::lost_before(Hop hop, const MessageKey& key, const TensorType& type) {
  if (key.kind != MessageKind::kBackwardGradient || !encoding_.feeds_back(hop, type)) return nullptr;
  Lost& lost = lost_[key.edge];
  const auto numbers = static_cast<std::size_t>(type.shape.elements());
  if (lost.step != key.step) {
    lost.step = key.step;
    lost.numbers.assign(numbers, 0.0F);
  }
  ROOKERY_CHECK(numbers <= lost.numbers.size(), "{} is larger than before", to_string(key));
  return &lost;
}

void CompressedLink::encode(Hop hop, const MessageKey& key, ConstTensorView tensor, Codec& codec) {
  const bool is_difference = is_delta(hop, key, tensor.type);
  last_bytes_ = nullptr;  // whose memory is free for this one
  last_type_ = is_difference ? reconstructions_->begin(key, tensor.type) : encoded_type(codec, tensor.type);
  last_bytes_ = beneath_.make_bytes(last_type_.bytes());
  if (is_difference) {
    reconstructions_->encode(key, tensor, last_bytes_.get());
  } else if (Lost* lost = lost_before(hop, key, tensor.type)) {
    encode_with(lost->numbers, codec, tensor.as<float>(), last_bytes_.get());
  } else {
    for_each_block(codec, tensor.as<float>(), last_bytes_.get(),
                   [&](std::span<const float> block, std::byte* bytes) { codec.encode(block, bytes); });
  }
}

std::unique_ptr<PendingTransfer> CompressedLink::begin_send(int to_rank, const MessageKey& key,
                                                            ConstTensorView tensor) {
  const Hop hop{rank_, to_rank};
  const Compression compression = compression_of(hop, key, tensor.type);
  const std::unique_ptr<Codec> codec = make_codec(compression);
  if (codec == nullptr) return beneath_.begin_send(to_rank, key, tensor);
  if (last_bytes_ == nullptr || last_key_ != key || last_encoding_ != compression.encoding) {
    encode(hop, key, tensor, *codec);
    last_key_ = key;
    last_encoding_ = compression.encoding;
  }
  auto sending = beneath_.begin_send(to_rank, key, {last_type_, last_bytes_.get()});
  return std::make_unique<EncodedSend>(last_bytes_, std::move(sending));
}

std::unique_ptr<PendingTransfer> CompressedLink::begin_receive(int from_rank, const MessageKey& key,
                                                               TensorView into) {
  const Hop hop{from_rank, rank_};
  if (is_delta(hop, key, into.type)) return std::make_unique<DeltaReceive>(*this, from_rank, key, into);
  std::unique_ptr<Codec> codec = make_codec(compression_of(hop, key, into.type));
  if (codec == nullptr) return beneath_.begin_receive(from_rank, key, into);
  return std::make_unique<EncodedReceive>(beneath_, from_rank, key, std::move(codec), into);
}

}  // namespace rookery
