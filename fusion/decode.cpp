#include "fusion/decode.hpp"

#include <algorithm>
#include <vector>

#include "models/base/error.hpp"
#include "models/graph/stage.hpp"
#include "models/runtime/executable.hpp"

namespace rookery {
namespace {

using Tokens = std::vector<std::int64_t>;

class Decoder {
 public:
  Decoder(const Graph& model, const StateDict& state, std::vector<std::int64_t> sizes)
      : stage_(std::move(cut(model, std::vector<OpId>{0}).front())),
        executable_(stage_, options(model, std::move(sizes)), state) {
    const std::vector<TensorType> types = model.types(1);
    const auto type_of = [&](ValueId id) { return types[static_cast<std::size_t>(id)]; };
    const bool fits = model.inputs().size() == 1 && model.outputs().size() == 1 &&
                      type_of(model.inputs()[0]).dtype == DType::kI64 &&
                      type_of(model.inputs()[0]).shape.rank() == 2 &&
                      type_of(model.outputs()[0]).shape.rank() == 3;
    if (!fits) throw ConfigError("the model does not make one token of every token of a sequence");
    length_ = type_of(model.inputs()[0]).shape[1];
    vocabulary_ = type_of(model.outputs()[0]).shape[2];
  }

  // Of `labels`, sequence after sequence, what is not `ignored`; the answer goes into `tokens`.
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
  static CompileOptions options(const Graph& model, std::vector<std::int64_t> sizes) {
    KernelChoice kernels = choose_kernels(model, sizes.front());
    return {.training_sizes = {}, .inference_sizes = std::move(sizes), .kernels = std::move(kernels)};
  }

  // What the model holds most likely after each of the tokens.
  Tokens likely_tokens(const Tokens& tokens) {
    const MicroBatch micro_batch{.mode = Mode::kInference, .size = std::ssize(tokens) / length_};
    std::ranges::copy(tokens, executable_.input(0, micro_batch).as<std::int64_t>().begin());
    executable_.forward(micro_batch);
    const auto logits = executable_.output(0, micro_batch).as<float>();
    Tokens likely;
    for (std::size_t i = 0; i < tokens.size(); ++i) {
      const auto row =
          logits.subspan(i * static_cast<std::size_t>(vocabulary_), static_cast<std::size_t>(vocabulary_));
      likely.push_back(std::ranges::max_element(row) - row.begin());
    }
    return likely;
  }

  Stage stage_;
  Executable executable_;
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
  std::vector<std::int64_t> sizes{std::min(batch, std::ssize(ids))};
  if (const std::int64_t rest = std::ssize(ids) % sizes[0]; rest != 0) sizes.push_back(rest);
  const auto input =
      std::ranges::find_if(data.tensors(), [&](const auto& one) { return one.first != target; });
  Decoder decoder(model, state, sizes);
  Decoded decoded{.sequences = std::ssize(ids)};
  for (; !ids.empty(); ids = ids.subspan(std::min(ids.size(), static_cast<std::size_t>(sizes[0])))) {
    const auto part = ids.first(std::min(ids.size(), static_cast<std::size_t>(sizes[0])));
    decoded.right +=
        decoder.count_right(gather(data, input->first, part), gather(data, target, part), ignored);
  }
  return decoded;
}

}  // namespace rookery
