// Ten hidden layers: 784-128-512-…-512-10 with ReLU on 28×28 grey images; its outputs are logits.

#include "models/base/libraries/format.hpp"
#include "models/graph/ops/builder.hpp"
#include "models/zoo/zoo.hpp"

namespace rookery {

Graph deep_mlp() {
  GraphBuilder net;
  ValueId x = net.input("input", {784});
  x = net.relu("relu_1", net.linear("dense_1", x, 128));
  for (int layer = 2; layer <= 10; ++layer) {
    x = net.relu(fmt::format("relu_{}", layer), net.linear(fmt::format("dense_{}", layer), x, 512));
  }
  return net.finish(net.linear("dense_11", x, 10));
}

}  // namespace rookery
