// A pipeline's link whose activations and gradients travel in fewer bits.
//
// It stands between a StageWorker and the Link beneath, so that a pipeline of threads and one of machines
// train alike. What an encoding loses is lost for whoever uses the value on another stage, in validation,
// too; what the value's own stage does with it is exact. Encoding knows nothing of earlier micro-batches: all
// users of a value on other stages decode the same numbers, and a run that goes on from a checkpoint gives
// the bits of one undisturbed. Training then depends on the cut, which decides what is rounded.
//
// On the link beneath an encoded tensor is u8[n], n a function of its shape alone. As it is travels what is
// not f32 (token ids, labels, masks), what belongs to no micro-batch, the samples' data, and what encoding
// would not make smaller.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "trainer/link.hpp"
#include "trainer/settings/compression.hpp"
#include "trainer/transport/codec.hpp"

namespace rookery {

// By kind of edge; the same on all stages of a cluster.
struct EdgeCompression {
  Compression activations;
  Compression gradients;

  bool is_lossy() const { return activations.is_lossy() || gradients.is_lossy(); }
};

// What a tensor of this type is on its way: u8[n] where it is encoded, else `type` itself.
TensorType encoded_type(const Compression& compression, const TensorType& type);

// Belongs to the thread of the link beneath, which outlives it.
class CompressedLink final : public Link {
 public:
  // `data`: the names of the model's inputs, which the Root hands on from the data set.
  CompressedLink(Link& beneath, const EdgeCompression& compression, std::set<std::string> data);

  std::unique_ptr<PendingTransfer> begin_send(int to_rank, const MessageKey& key,
                                              ConstTensorView tensor) override;
  std::unique_ptr<PendingTransfer> begin_receive(int from_rank, const MessageKey& key,
                                                 TensorView into) override;
  MessageBytes receive_bytes(int from_rank, const MessageKey& key, const TensorType& type) override;
  void send_bytes(int to_rank, const MessageKey& key, const TensorType& type, MessageBytes&& bytes) override;
  MessageBytes make_bytes(std::uint64_t bytes) override { return beneath_.make_bytes(bytes); }
  void flush() override { beneath_.flush(); }

 private:
  // Null: a tensor of this key and type travels as it is.
  std::shared_ptr<Codec> codec_of(const MessageKey& key, const TensorType& type) const;

  Link& beneath_;
  std::set<std::string> data_;
  std::shared_ptr<Codec> activations_, gradients_;
  // The tensor that was encoded last: a value goes to all its users one after the other.
  MessageKey last_key_;
  MessageBytes last_bytes_;
};

}  // namespace rookery
