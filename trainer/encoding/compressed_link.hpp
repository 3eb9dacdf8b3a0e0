// A pipeline's link whose activations and gradients travel in fewer bits.
//
// It stands between a StageWorker and the Link beneath, so that a pipeline of threads and one of machines
// train alike. What an encoding loses is lost for whoever uses the value on another stage, in validation,
// too; what the value's own stage does with it is exact. All users of a value on other stages decode the same
// numbers. What int8 and int4 lose of a gradient is added to the gradient of the same value in the next
// micro-batch of the step, so that small numbers are not lost in all of them; what the last one loses is
// gone. From step to step nothing is kept but Reconstructions, which belong to a checkpoint: a run that goes
// on from one gives the bits of one undisturbed. Training then depends on the cut, which decides what is
// rounded.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "trainer/encoding/codec.hpp"
#include "trainer/encoding/edge_encoding.hpp"
#include "trainer/encoding/reconstructions.hpp"
#include "trainer/link.hpp"

namespace rookery {

// Belongs to the thread of the link beneath, which outlives it. Of that it takes memory for one tensor that
// is encoded, and one that is decoded (coding_buffers() of trainer/transfers.hpp); of the heap what is lost
// of gradients (Transfer::kept_bytes).
class CompressedLink final : public Link {
 public:
  // `rank`: of this member. The same encoding on all of them. `reconstructions`: of this stage, with which
  // nobody else deals in training; they outlive the link. Without them nothing travels by its difference, but
  // all as what there is no difference of.
  CompressedLink(Link& beneath, int rank, EdgeEncoding encoding, Reconstructions* reconstructions = nullptr);

  std::unique_ptr<PendingTransfer> begin_send(int to_rank, const MessageKey& key,
                                              ConstTensorView tensor) override;
  std::unique_ptr<PendingTransfer> begin_receive(int from_rank, const MessageKey& key,
                                                 TensorView into) override;
  MessageBytes make_bytes(std::uint64_t bytes) override { return beneath_.make_bytes(bytes); }
  void flush() override { beneath_.flush(); }

 private:
  // What encoding has lost of a value's gradients in this step.
  struct Lost {
    std::int64_t step = -1;
    std::vector<float> numbers;
  };

  class DeltaReceive;

  bool is_delta(Hop hop, const MessageKey& key, const TensorType& type) const;
  // What encodes a tensor of this key and type, or its difference; nothing where it travels as it is.
  Compression compression_of(Hop hop, const MessageKey& key, const TensorType& type) const;
  // Null where nothing is added to a tensor.
  Lost* lost_before(Hop hop, const MessageKey& key, const TensorType& type);
  // Makes it the last one.
  void encode(Hop hop, const MessageKey& key, ConstTensorView tensor, Codec& codec);

  Link& beneath_;
  const int rank_;
  const EdgeEncoding encoding_, first_of_deltas_;
  Reconstructions* const reconstructions_;
  // The tensor that was encoded last: a value goes to all its users one after the other.
  MessageKey last_key_;
  Encoding last_encoding_ = Encoding::kFloat32;
  TensorType last_type_;
  MessageBytes last_bytes_;
  std::map<std::string, Lost> lost_;  // by value
  // Differences that were begun to be received, by value.
  std::map<std::string, std::deque<DeltaReceive*>> receives_;
};

}  // namespace rookery
