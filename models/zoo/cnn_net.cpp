// A small convolutional network for 8×8 images such as the UCI optical digits.
#include "models/graph/ops/builder.hpp"
#include "models/zoo/zoo.hpp"

namespace rookery {

Graph cnn_net() {
  GraphBuilder net;
  ValueId x = net.input("input", {1, 8, 8});

  x = net.conv2d("conv2d_1", x, 16);  // 16×8×8
  x = net.relu("relu_1", x);
  x = net.max_pool2d("max_pool_1", x, 2, 2);  // 16×4×4
  x = net.dropout("dropout_1", x, 0.25F);
  x = net.batch_norm("bn_1", x);
  x = net.max_pool2d("max_pool_2", x, 2, 2);  // 16×2×2

  x = net.conv2d("conv2d_2", x, 32);  // 32×2×2
  x = net.relu("relu_2", x);
  x = net.max_pool2d("max_pool_3", x, 2, 2);  // 32×1×1
  x = net.dropout("dropout_2", x, 0.25F);
  x = net.batch_norm("bn_2", x);

  x = net.flatten("flatten", x);
  x = net.linear("dense_1", x, 256);
  x = net.relu("relu_3", x);
  x = net.dropout("dropout_3", x, 0.4F);
  x = net.batch_norm("bn_3", x);
  x = net.linear("dense_2", x, 10);
  return net.finish(net.softmax("softmax", x));
}

}  // namespace rookery
