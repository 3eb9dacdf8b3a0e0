// VGG with 8 convolutions (configuration A of "Very Deep Convolutional Networks for Large-Scale Image
// Recognition", arXiv 1409.1556) and, as is usual for small images, one linear layer after them. Parameters
// of the convolutions are named as in torchvision. Outputs are logits.
#include <fmt/format.h>

#include "models/graph/builder.hpp"
#include "models/zoo/zoo.hpp"

namespace rookery {

Graph vgg11(std::int64_t image_size, std::int64_t classes) {
  constexpr std::int64_t kPool = 0;
  GraphBuilder net;
  ValueId x = net.input("input", {3, image_size, image_size});
  int layer = 0;  // within torchvision's "features"
  for (const std::int64_t channels :
       {64L, kPool, 128L, kPool, 256L, 256L, kPool, 512L, 512L, kPool, 512L, 512L, kPool}) {
    if (channels == kPool) {
      x = net.max_pool2d(fmt::format("features.{}", layer++), x, 2, 2);
      continue;
    }
    x = net.conv2d(fmt::format("features.{}", layer++), x, channels);
    x = net.relu(fmt::format("features.{}", layer++), x);
  }
  x = net.flatten("flatten", x);
  return net.finish(net.linear("classifier", x, classes));
}

}  // namespace rookery
