// Models by name.
#pragma once

#include <string>
#include <vector>

#include "models/graph/graph.hpp"

namespace rookery {

struct ZooModel {
  std::string name;
  std::string summary;
  Graph (*build)();
};

const std::vector<ZooModel>& zoo();
// ConfigError listing the names when there is none like it.
Graph zoo_model(const std::string& name);

// One page each.
Graph cnn_net();
Graph mnist_mlp();
Graph deep_mlp();
// Of square images, a multiple of 32 wide.
Graph vgg11(std::int64_t image_size = 32, std::int64_t classes = 10);
Graph resnet18(std::int64_t image_size = 224, std::int64_t classes = 1000);

}  // namespace rookery
