// Random models for property tests: branches, sums, views, layers with state, everything that memory plans
// and passes have to get right.
#pragma once

#include <random>
#include <string>
#include <vector>

#include "models/graph/ops/builder.hpp"
#include "models/graph/passes/loss.hpp"

namespace rookery::test {

class RandomGraph {
 public:
  // A model of `layers` layers and its loss: input "input" f32[batch, 3, 6, 6] or f32[batch, 24].
  static Graph make(unsigned seed, int layers) { return RandomGraph(seed).build(layers); }

 private:
  explicit RandomGraph(unsigned seed) : random_(seed) {}

  Graph build(int layers) {
    is_image_ = pick(2) == 0;
    values_.push_back(builder_.input("input", is_image_ ? Shape{3, 6, 6} : Shape{24}));
    values_.push_back(is_image_ ? builder_.conv2d("first", values_[0], 3)
                                : builder_.linear("first", values_[0], 24));
    for (int layer = 0; layer < layers; ++layer) {
      if (is_image_ && pick(2 * layers) < layer) flatten(layer);
      values_.push_back(next("layer_" + std::to_string(layer)));
    }
    if (is_image_) flatten(layers);
    // All loose ends count.
    ValueId sum = values_.back();
    for (int i = 0; i < 2; ++i) sum = builder_.add("end_" + std::to_string(i), sum, any());
    Graph graph = builder_.finish(builder_.linear("last", sum, 5));
    add_loss(graph, pick(2) == 0 ? "cross_entropy" : "mse");
    return graph;
  }

  int pick(int count) { return std::uniform_int_distribution<int>(0, count - 1)(random_); }
  // A value made before, of the shape that all have now; late ones are likelier.
  ValueId any() {
    const int count = static_cast<int>(values_.size());
    return values_[count - 1 - pick(1 + pick(count))];
  }

  void flatten(int layer) {
    const std::string name = "flat_" + std::to_string(layer);
    const ValueId flat = builder_.flatten(name, any());
    values_ = {builder_.linear(name + "_dense", flat, 24)};
    is_image_ = false;
  }

  // Keeps the shape.
  ValueId next(const std::string& name) {
    switch (pick(15)) {
      case 0:
      case 1:
        return is_image_ ? builder_.conv2d(name, any(), 3) : builder_.linear(name, any(), 24);
      case 2:
      case 3:
        return builder_.relu(name, any());
      case 4:
        return builder_.add(name, any(), any());
      case 5:
        return builder_.mul(name, any(), builder_.sigmoid(name + "_gate", any()));
      case 6:
        return builder_.sub(name, any(), any());
      case 7:
        return builder_.batch_norm(name, any());
      case 8:
        return builder_.dropout(name, any(), 0.25F);
      case 9:
        return builder_.gelu(name, any());
      case 10:
        return builder_.tanh(name, any());
      case 11:
        return builder_.apply(name, "Identity", {any()});
      case 12:
        return builder_.softmax(name, any());
      case 13:
        return builder_.scale(name, any(), is_image_ ? Shape{3, 1, 1} : Shape{24});
      default:
        return builder_.leaky_relu(name, any(), 0.1F);
    }
  }

  std::mt19937 random_;
  GraphBuilder builder_;
  std::vector<ValueId> values_;
  bool is_image_ = false;
};

}  // namespace rookery::test
