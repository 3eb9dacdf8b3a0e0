// A multilayer perceptron for MNIST; its outputs are logits.
#include "models/graph/ops/builder.hpp"
#include "models/zoo/zoo.hpp"

namespace rookery {

Graph mnist_mlp() {
  GraphBuilder net;
  ValueId x = net.input("input", {784});
  x = net.relu("relu_1", net.linear("dense_1", x, 256));
  x = net.relu("relu_2", net.linear("dense_2", x, 256));
  return net.finish(net.linear("dense_3", x, 10));
}

}  // namespace rookery
