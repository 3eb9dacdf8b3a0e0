#include "trainer/link.hpp"

#include "models/base/check.hpp"
#include "models/base/libraries/format.hpp"

namespace rookery {

std::string to_string(const MessageKey& key) {
  const auto of_micro_batch = [&](const char* what) {
    return fmt::format("{} {} of {} {}, micro-batch {}", what, key.edge,
                       key.validation ? "validation batch" : "step", key.step, key.micro_batch);
  };
  switch (key.kind) {
    case MessageKind::kForwardActivation:
      return of_micro_batch("activation");
    case MessageKind::kBackwardGradient:
      return of_micro_batch("gradient of");
    case MessageKind::kBackwardParameterGradient:
      return fmt::format("gradient of parameter {} of step {}", key.edge, key.step);
    case MessageKind::kForwardParameter:
      return fmt::format("parameter {} after step {}", key.edge, key.step);
    case MessageKind::kSquares:
      return fmt::format("squared gradients of step {}", key.step);
    case MessageKind::kForwardActivationAgain:
      return of_micro_batch("second activation");
    case MessageKind::kBackwardLearningRate:
      return fmt::format("learning rate from step {} on", key.step);
    case MessageKind::kAgreement:
      return fmt::format("{} before step {}", key.edge, key.step);
    case MessageKind::kCheckpoint:
      return fmt::format("piece {} of the checkpoint's {}", key.micro_batch, key.edge);
    case MessageKind::kAverage:
      return fmt::format("piece {} of round {}{}{}", key.micro_batch, key.step, key.edge.empty() ? "" : ": ",
                         key.edge);
    case MessageKind::kClusterNumbers:
      return fmt::format("{} of the clusters at step {}", key.edge, key.step);
  }
  ROOKERY_CHECK(false, "there is no message of kind {}", static_cast<int>(key.kind));
}

MessageBytes Link::receive_bytes(int from_rank, const MessageKey& key, const TensorType& type) {
  MessageBytes bytes = make_bytes(type.bytes());
  receive(from_rank, key, {type, bytes.get()});
  return bytes;
}

void Link::send_bytes(int to_rank, const MessageKey& key, const TensorType& type, MessageBytes&& bytes) {
  send(to_rank, key, {type, bytes.get()});
}

MessageBytes Link::make_bytes(std::uint64_t bytes) {
  return MessageBytes(new std::byte[bytes]);
}

void send_number(Link& link, int to_rank, const MessageKey& key, double number) {
  link.send(to_rank, key, {{DType::kF64, Shape{1}}, reinterpret_cast<const std::byte*>(&number)});
}

double receive_number(Link& link, int from_rank, const MessageKey& key) {
  double number = 0;
  link.receive(from_rank, key, {{DType::kF64, Shape{1}}, reinterpret_cast<std::byte*>(&number)});
  return number;
}

}  // namespace rookery
