// Delta encoding of activations (AQ-SGD, arXiv 2206.01299): both ends of an edge keep, for each sample that
// trains, the activation as it was last decoded, its reconstruction. When the sample is trained again, the
// difference from that travels, and both ends add what is decoded of it. So what encoding loses shrinks with
// the difference, as training comes to rest, and the numbers that the receiver uses are the sender's
// reconstruction, bit for bit. A sample's first time travels as EdgeEncoding::first_of_deltas().
//
// Each row of a message, a sample's, is encoded by itself: as long as both ends handle the messages of a
// sample in the same order, it does not matter what else comes between.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "models/graph/stage.hpp"
#include "models/tensor/tensor.hpp"
#include "trainer/encoding/codec.hpp"
#include "trainer/encoding/edge_encoding.hpp"
#include "trainer/feed/sample_places.hpp"
#include "trainer/link.hpp"

namespace rookery {

// "reconstruction/relu_1": what a checkpoint has of a value's; no parameter and no buffer may be called so.
inline std::string reconstruction_key(const std::string& value) {
  return "reconstruction/" + value;
}
inline bool is_reconstruction_key(const std::string& name) {
  return name.starts_with(reconstruction_key(""));
}

// Those of a stage: of what it sends, one of each value, however many stages get it, and of what it receives.
// A message is handled by begin() and then encode() or decode(), of a value one after the other. One thread.
class Reconstructions {
 public:
  // `again`: so many micro-batches of a step, from the first, may be sent a second time
  // (kForwardActivationAgain), for which the samples are taken back to what they were.
  Reconstructions(const Stage& stage, const EdgeEncoding& encoding, SamplePlaces places, int again);

  // What they take for micro-batches of up to `micro_batch` samples.
  static std::int64_t bytes(const Stage& stage, std::int64_t micro_batch, const EdgeEncoding& encoding,
                            int again);

  // No stage of the model takes more, with batches of `batch` samples.
  static std::int64_t most_bytes(const Graph& model, std::int64_t batch, const EdgeEncoding& encoding);

  // Where a run goes on with batches of another size: SamplePlaces::begin().
  void begin_run(std::int64_t steps_ahead) { places_.begin(steps_ahead); }
  bool has(const std::string& value) const { return values_.contains(value); }
  // By reconstruction_key(). NaN begins the row of a sample that has none yet.
  std::map<std::string, TensorView> state();

  // The type, as it travels, of an activation of this type in training.
  TensorType begin(const MessageKey& key, const TensorType& type);
  void encode(const MessageKey& key, ConstTensorView tensor, std::byte* bytes);
  void decode(const MessageKey& key, const std::byte* bytes, TensorView into);

 private:
  using Rows = std::map<int, std::vector<float>>;  // by micro-batch

  struct KeptValue {
    std::unique_ptr<Codec> differences;
    Tensor samples;  // f32[samples, numbers of each]
    std::int64_t step = -1;
    Rows before;  // of that step
  };

  std::span<const std::int64_t> places_of(const MessageKey& key, const TensorType& type);
  void keep_or_take_back(KeptValue& value, const MessageKey& key, std::span<const std::int64_t> places);
  // Calls work(what encodes the row of a sample, its reconstruction, whether that is its first).
  template <typename Work>
  void for_each_row(const MessageKey& key, const TensorType& type, Work work);

  SamplePlaces places_;
  const int again_;
  std::unique_ptr<Codec> first_;
  std::map<std::string, KeptValue> values_;
};

// The micro-batches of a step that any stage up to `stage` may send a second time.
int sent_again(const ScheduleSettings& schedule, int stage, int stages, int micro_batches);

}  // namespace rookery
