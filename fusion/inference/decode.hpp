// Measures how well a model continues sequences by itself.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "models/graph/state/state_dict.hpp"
#include "trainer/data/dataset.hpp"

namespace rookery {

struct Decoded {
  std::int64_t sequences = 0;
  std::int64_t right = 0;  // those of which every token that was asked for is the label

  double percent() const { return 100 * static_cast<double>(right) / static_cast<double>(sequences); }
};

// Decodes greedily: at every place whose label is not `ignored`, from the first on, the most likely token is
// taken for the label and becomes the input of the next place; what the data set has there is not looked at.
// `model` (without losses) has one input, i64[batch, length], and one output, f32[batch, length, vocabulary];
// ConfigError for another. `data` has is_continued(), and labels in its tensor `target`.
Decoded decode_greedily(const Graph& model, const StateDict& state, const Dataset& data,
                        const std::string& target, std::int64_t ignored, std::span<const std::int64_t> ids,
                        std::int64_t batch);

}  // namespace rookery
