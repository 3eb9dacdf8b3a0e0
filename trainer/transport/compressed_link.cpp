#include "trainer/transport/compressed_link.hpp"

#include <algorithm>
#include <span>
#include <utility>

namespace rookery {
namespace {

TensorType encoded_type(const Codec* codec, const TensorType& type) {
  if (codec == nullptr || type.dtype != DType::kF32) return type;
  const auto numbers = static_cast<std::size_t>(type.shape.elements());
  const std::size_t bytes = codec->bytes(numbers);
  if (bytes >= type.bytes()) return type;
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
  EncodedReceive(Link& link, int from_rank, const MessageKey& key, std::shared_ptr<Codec> codec,
                 TensorView into)
      : codec_(std::move(codec)), into_(into) {
    const TensorType type = encoded_type(codec_.get(), into.type);
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

  std::shared_ptr<Codec> codec_;
  TensorView into_;
  MessageBytes bytes_;
  std::unique_ptr<PendingTransfer> beneath_;  // writes bytes_, and so goes first
  bool is_done_ = false;
};

}  // namespace

TensorType encoded_type(const Compression& compression, const TensorType& type) {
  return encoded_type(make_codec(compression).get(), type);
}

CompressedLink::CompressedLink(Link& beneath, const EdgeCompression& compression, std::set<std::string> data)
    : beneath_(beneath),
      data_(std::move(data)),
      activations_(make_codec(compression.activations)),
      gradients_(make_codec(compression.gradients)) {}

std::shared_ptr<Codec> CompressedLink::codec_of(const MessageKey& key, const TensorType& type) const {
  std::shared_ptr<Codec> codec;
  if (key.kind == MessageKind::kForwardActivation && !data_.contains(key.edge)) codec = activations_;
  if (key.kind == MessageKind::kBackwardGradient) codec = gradients_;
  return encoded_type(codec.get(), type) == type ? nullptr : codec;
}

std::unique_ptr<PendingTransfer> CompressedLink::begin_send(int to_rank, const MessageKey& key,
                                                            ConstTensorView tensor) {
  const std::shared_ptr<Codec> codec = codec_of(key, tensor.type);
  if (codec == nullptr) return beneath_.begin_send(to_rank, key, tensor);
  const TensorType type = encoded_type(codec.get(), tensor.type);
  if (last_bytes_ == nullptr || last_key_ != key) {
    last_bytes_ = beneath_.make_bytes(type.bytes());
    last_key_ = key;
    for_each_block(*codec, tensor.as<float>(), last_bytes_.get(),
                   [&](std::span<const float> block, std::byte* bytes) { codec->encode(block, bytes); });
  }
  auto sending = beneath_.begin_send(to_rank, key, {type, last_bytes_.get()});
  return std::make_unique<EncodedSend>(last_bytes_, std::move(sending));
}

std::unique_ptr<PendingTransfer> CompressedLink::begin_receive(int from_rank, const MessageKey& key,
                                                               TensorView into) {
  std::shared_ptr<Codec> codec = codec_of(key, into.type);
  if (codec == nullptr) return beneath_.begin_receive(from_rank, key, into);
  return std::make_unique<EncodedReceive>(beneath_, from_rank, key, std::move(codec), into);
}

MessageBytes CompressedLink::receive_bytes(int from_rank, const MessageKey& key, const TensorType& type) {
  return codec_of(key, type) == nullptr ? beneath_.receive_bytes(from_rank, key, type)
                                        : Link::receive_bytes(from_rank, key, type);
}

void CompressedLink::send_bytes(int to_rank, const MessageKey& key, const TensorType& type,
                                MessageBytes&& bytes) {
  if (codec_of(key, type) == nullptr) return beneath_.send_bytes(to_rank, key, type, std::move(bytes));
  Link::send_bytes(to_rank, key, type, std::move(bytes));
}

}  // namespace rookery
