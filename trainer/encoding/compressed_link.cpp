#include "trainer/encoding/compressed_link.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
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

// Calls work(a block's numbers, its bytes) for all blocks.
template <typename Number, typename Byte, typename Work>
void for_each_block(const Codec& codec, std::span<Number> numbers, Byte* bytes, Work work) {
  for (std::size_t begin = 0; begin < numbers.size(); begin += codec.block()) {
    const std::size_t count = std::min(codec.block(), numbers.size() - begin);
    work(numbers.subspan(begin, count), bytes);
    bytes += codec.block_bytes(count);
  }
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

}  // namespace

CompressedLink::CompressedLink(Link& beneath, int rank, EdgeEncoding encoding)
    : beneath_(beneath), rank_(rank), encoding_(std::move(encoding)) {}

Compression CompressedLink::compression_of(Hop hop, const MessageKey& key, const TensorType& type) const {
  if (key.kind == MessageKind::kForwardActivation || key.kind == MessageKind::kForwardActivationAgain)
    return encoding_.of_activation(hop, key.edge, type);
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

std::unique_ptr<PendingTransfer> CompressedLink::begin_send(int to_rank, const MessageKey& key,
                                                            ConstTensorView tensor) {
  const Hop hop{rank_, to_rank};
  const Compression compression = compression_of(hop, key, tensor.type);
  const std::unique_ptr<Codec> codec = make_codec(compression);
  if (codec == nullptr) return beneath_.begin_send(to_rank, key, tensor);
  const TensorType type = encoded_type(*codec, tensor.type);
  if (last_bytes_ == nullptr || last_key_ != key || last_encoding_ != compression.encoding) {
    last_bytes_ = nullptr;  // whose memory is free for this one
    last_bytes_ = beneath_.make_bytes(type.bytes());
    last_key_ = key;
    last_encoding_ = compression.encoding;
    if (Lost* lost = lost_before(hop, key, tensor.type)) {
      encode_with(lost->numbers, *codec, tensor.as<float>(), last_bytes_.get());
    } else {
      for_each_block(*codec, tensor.as<float>(), last_bytes_.get(),
                     [&](std::span<const float> block, std::byte* bytes) { codec->encode(block, bytes); });
    }
  }
  auto sending = beneath_.begin_send(to_rank, key, {type, last_bytes_.get()});
  return std::make_unique<EncodedSend>(last_bytes_, std::move(sending));
}

std::unique_ptr<PendingTransfer> CompressedLink::begin_receive(int from_rank, const MessageKey& key,
                                                               TensorView into) {
  std::unique_ptr<Codec> codec = make_codec(compression_of({from_rank, rank_}, key, into.type));
  if (codec == nullptr) return beneath_.begin_receive(from_rank, key, into);
  return std::make_unique<EncodedReceive>(beneath_, from_rank, key, std::move(codec), into);
}

}  // namespace rookery
