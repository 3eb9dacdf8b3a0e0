#include "fusion/inference/decode.hpp"

#include <algorithm>
#include <vector>

#include "fusion/inference/whole_model.hpp"
#include "models/base/error.hpp"

namespace rookery {
namespace {

using Tokens = std::vector<std::int64_t>;

class Decoder {
 public:
  Decoder(const Graph& model, const StateDict& state, std::int64_t sequences, std::int64_t batch)
      : whole_(model, state, sequences, batch) {
    const std::vector<TensorType> types = model.types(1);
    const auto type_of = [&](ValueId id) { return types[id]; };
    const bool fits = model.inputs().size() == 1 && model.outputs().size() == 1 &&
                      type_of(model.inputs()[0]).dtype == DType::kI64 &&
                      type_of(model.inputs()[0]).shape.rank() == 2 &&
                      type_of(model.outputs()[0]).shape.rank() == 3;
    if (!fits)
      throw ConfigError(
          "decoding needs a model with one input [n, tokens] and one output [n, tokens, vocabulary]");
    length_ = type_of(model.inputs()[0]).shape[1];
    vocabulary_ = type_of(model.outputs()[0]).shape[2];
  }

  // The number of sequences that count_right() takes at a time.
  const std::vector<std::int64_t>& batches() const { return whole_.batches; }

  // The number of sequences whose labels, but for the `ignored` ones, are all found, token by token: each
  // answer goes into `tokens` before the next is asked for.
  std::int64_t count_right(Tokens tokens, const Tokens& labels, std::int64_t ignored) {
    const auto sequences = static_cast<std::size_t>(std::ssize(labels) / length_);
    const auto length = static_cast<std::size_t>(length_);
    for (std::size_t i = 0; i < labels.size(); ++i) {
      if (labels[i] != ignored && (i + 1) % length != 0) tokens[i + 1] = 0;
    }
    std::vector<bool> right(sequences, true);
    for (std::size_t place = 0; place < length; ++place) {
      const auto is_asked = [&](std::size_t sequence) {
        return labels[sequence * length + place] != ignored;
      };
      bool any = false;
      for (std::size_t sequence = 0; sequence < sequences; ++sequence) any = any || is_asked(sequence);
      if (!any) continue;
      const Tokens likely = likely_tokens(tokens);
      for (std::size_t sequence = 0; sequence < sequences; ++sequence) {
        if (!is_asked(sequence)) continue;
        const std::size_t at = sequence * length + place;
        if (likely[at] != labels[at]) right[sequence] = false;
        if (place + 1 < length) tokens[at + 1] = likely[at];
      }
    }
    return std::ranges::count(right, true);
  }

 private:
  // The token that the model holds most likely after each of the tokens.
  Tokens likely_tokens(const Tokens& tokens) {
    const MicroBatch micro_batch{.mode = Mode::kInference, .size = std::ssize(tokens) / length_};
    std::ranges::copy(tokens, whole_.executable.input(0, micro_batch).as<std::int64_t>().begin());
    whole_.executable.forward(micro_batch);
    const auto logits = whole_.executable.output(0, micro_batch).as<float>();
    Tokens likely;
    for (std::size_t i = 0; i < tokens.size(); ++i) {
      const auto row =
          logits.subspan(i * static_cast<std::size_t>(vocabulary_), static_cast<std::size_t>(vocabulary_));
      likely.push_back(std::ranges::max_element(row) - row.begin());
    }
    return likely;
  }

  WholeModel whole_;
  std::int64_t length_ = 0;
  std::int64_t vocabulary_ = 0;
};

Tokens gather(const Dataset& data, const std::string& name, std::span<const std::int64_t> ids) {
  Tensor tensor(DType::kI64, data.tensors().at(name).shape.with_batch(std::ssize(ids)));
  data.gather(name, ids, tensor.view());
  const auto tokens = tensor.as<std::int64_t>();
  return {tokens.begin(), tokens.end()};
}

}  // namespace

Decoded decode_greedily(const Graph& model, const StateDict& state, const Dataset& data,
                        const std::string& target, std::int64_t ignored, std::span<const std::int64_t> ids,
                        std::int64_t batch) {
  const auto input =
      std::ranges::find_if(data.tensors(), [&](const auto& one) { return one.first != target; });
  Decoder decoder(model, state, std::ssize(ids), batch);
  Decoded decoded{.sequences = std::ssize(ids)};
  for (const std::int64_t size : decoder.batches()) {
    const auto part = ids.first(size);
    decoded.right +=
        decoder.count_right(gather(data, input->first, part), gather(data, target, part), ignored);
    ids = ids.subspan(part.size());
  }
  return decoded;
}

}  // namespace rookery
