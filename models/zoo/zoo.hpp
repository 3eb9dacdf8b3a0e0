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
// The sizes of minGPT's gpt-nano, which learns to sort.
struct GptOptions {
  std::int64_t vocabulary = 3;
  std::int64_t length = 11;  // of a sequence, in tokens
  std::int64_t layers = 3;
  std::int64_t heads = 3;
  std::int64_t width = 48;
  float dropout = 0.1F;
};
Graph gpt(const GptOptions& options = {});
// One of its layers by itself: f32[batch, length, width] to the same.
Graph gpt_block(const GptOptions& options);
Graph resnet18(std::int64_t image_size = 224, std::int64_t classes = 1000);

}  // namespace rookery
