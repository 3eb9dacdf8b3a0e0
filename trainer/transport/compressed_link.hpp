// A pipeline's link whose activations and gradients travel in fewer bits.
//
// It stands between a StageWorker and the Link beneath, so that a pipeline of threads and one of machines
// train alike. What an encoding loses is lost for whoever uses the value on another stage, in validation,
// too; what the value's own stage does with it is exact. Encoding knows nothing of earlier micro-batches: all
// users of a value on other stages decode the same numbers, and a run that goes on from a checkpoint gives
// the bits of one undisturbed. Training then depends on the cut, which decides what is rounded.
#pragma once

#include <memory>

#include "trainer/link.hpp"
#include "trainer/transport/edge_encoding.hpp"

namespace rookery {

// Belongs to the thread of the link beneath, which outlives it. Of that it takes memory for one tensor that
// is encoded, and one that is decoded (coding_buffers() of trainer/transfers.hpp).
class CompressedLink final : public Link {
 public:
  // The same encoding on all members.
  CompressedLink(Link& beneath, EdgeEncoding encoding);

  std::unique_ptr<PendingTransfer> begin_send(int to_rank, const MessageKey& key,
                                              ConstTensorView tensor) override;
  std::unique_ptr<PendingTransfer> begin_receive(int from_rank, const MessageKey& key,
                                                 TensorView into) override;
  MessageBytes receive_bytes(int from_rank, const MessageKey& key, const TensorType& type) override;
  void send_bytes(int to_rank, const MessageKey& key, const TensorType& type, MessageBytes&& bytes) override;
  MessageBytes make_bytes(std::uint64_t bytes) override { return beneath_.make_bytes(bytes); }
  void flush() override { beneath_.flush(); }

 private:
  // What encodes a tensor of this key and type; nothing where it travels as it is.
  Compression compression_of(const MessageKey& key, const TensorType& type) const;

  Link& beneath_;
  const EdgeEncoding encoding_;
  // The tensor that was encoded last: a value goes to all its users one after the other.
  MessageKey last_key_;
  MessageBytes last_bytes_;
};

}  // namespace rookery
