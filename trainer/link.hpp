// The exchange of tensors between the members of a group: the stages of a pipeline. MemoryLink
// (memory_link.hpp) joins threads of one process; node/transport/zmq_link.hpp joins machines. Both pass the
// same tests (tests/trainer/link_suite.hpp).
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>

#include "models/tensor/tensor.hpp"

namespace rookery {

enum class MessageKind : std::uint8_t {
  // These belong to a micro-batch.
  kForwardActivation = 0,
  kBackwardGradient = 1,
  // These belong to a step (see StepExchange); micro_batch is 0.
  kBackwardParameterGradient = 2,  // the partial gradient of a parameter that stages share
  kForwardParameter = 3,           // its new value
  // The squares of the sending stage's gradients: i64[ExactSum::kWords].
  kSquares = 4,
  // Belongs to a micro-batch: the activation of a forward that is run again, since the update before it was
  // taken back (see StageWorker).
  kForwardActivationAgain = 5,
  // From the Leaf to all others (see Trainer).
  kBackwardLearningRate = 6,  // from step `step` on: one f64
  // Between the Root and all others, before step `step`: a whole number as f64, `edge` says which (see
  // trainer/checkpoint).
  kAgreement = 7,
  // Between any two stages, before the first step: bytes that make a text or a tensor of a checkpoint, `edge`
  // says of what, and `micro_batch` counts the pieces (see trainer/checkpoint/reshard/pieces.hpp).
  kCheckpoint = 8,
  // In a ring, from each member to the next: a piece of round `step`, u8[n]; `micro_batch` says which (see
  // trainer/averaging).
  kAverage = 9,
  // Between the Roots of neighbouring clusters, or a cluster's Root and its Leaf: f64[n]; `edge` says of what
  // (see
  // trainer/agreement.hpp).
  kClusterNumbers = 10,
};
constexpr int kMessageKinds = 11;

// A key says what a tensor is: the value or parameter `edge` of micro-batch `micro_batch` of step `step`.
// Training steps count updates; validation passes have steps of their own (see StageWorker), so a key is used
// once in a run between two given stages.
struct MessageKey {
  MessageKind kind = MessageKind::kForwardActivation;
  bool validation = false;
  std::int64_t step = 0;
  std::int32_t micro_batch = 0;
  std::string edge;  // name of the value; empty for a number
  // NOLINTNEXTLINE(modernize-use-nullptr): the check takes the generated comparison for a pointer's
  auto operator<=>(const MessageKey&) const = default;
};

// "activation relu_1_out of step 41, micro-batch 0"
std::string to_string(const MessageKey& key);

// A send or a receive that was begun. It belongs to the thread of its link, which outlives it, and has the
// use of the tensor's memory until it is done. Dropped before, a send was not made, and the tensor of a
// receive waits for another one.
class PendingTransfer {
 public:
  virtual ~PendingTransfer() = default;
  // Whether it is done; never waits. TransportError as Link::send() and receive().
  virtual bool test() = 0;
  // Until it is done. TransportError as Link::send() and receive().
  virtual void wait() = 0;
};

// The elements of a message, aligned for those of any type: for whoever holds them, until the last reference
// is gone.
using MessageBytes = std::shared_ptr<std::byte[]>;

// One member's view of its group. The others are addressed by rank: in a pipeline, the stage. Tensors are the
// host's. All calls belong to one thread; what lies beneath may use threads of its own.
class Link {
 public:
  virtual ~Link() = default;

  // A send is done once a copy has been taken, which is at once unless more than the bounded amount is under
  // way to that rank. What was taken travels without further calls. TransportError as below, when that is
  // known already.
  virtual std::unique_ptr<PendingTransfer> begin_send(int to_rank, const MessageKey& key,
                                                      ConstTensorView tensor) = 0;
  // A receive is done once the tensor with this key has come from this rank and was copied into `into`.
  virtual std::unique_ptr<PendingTransfer> begin_receive(int from_rank, const MessageKey& key,
                                                         TensorView into) = 0;

  // Both in one. TransportError naming peer, key and time waited when a wait lasts longer than the deadline,
  // or when the peer is lost or the group was ended; of a receive also when the tensor's type is not that of
  // `into`.
  void send(int to_rank, const MessageKey& key, ConstTensorView tensor) {
    begin_send(to_rank, key, tensor)->wait();
  }
  void receive(int from_rank, const MessageKey& key, TensorView into) {
    begin_receive(from_rank, key, into)->wait();
  }

  // The same for messages that are handed on, without copies where the link can do without: the elements that
  // have come, which are the caller's from then on; and elements that nobody changes any more once they are
  // sent.
  virtual MessageBytes receive_bytes(int from_rank, const MessageKey& key, const TensorType& type);
  virtual void send_bytes(int to_rank, const MessageKey& key, const TensorType& type, MessageBytes&& bytes);
  // Memory for so many bytes to be sent.
  virtual MessageBytes make_bytes(std::uint64_t bytes);

  // Returns when everything taken has arrived. TransportError as above.
  virtual void flush() = 0;
};

// A number as a message: f64[1].
constexpr std::uint64_t kNumberBytes = sizeof(double);
void send_number(Link& link, int to_rank, const MessageKey& key, double number);
double receive_number(Link& link, int from_rank, const MessageKey& key);

}  // namespace rookery
