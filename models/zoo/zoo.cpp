#include "models/zoo/zoo.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "models/base/error.hpp"

namespace rookery {

const std::vector<ZooModel>& zoo() {
  static const std::vector<ZooModel> models{
      {"cnn_net", "two convolutions and two dense layers on 8×8 grey images, 10 classes, softmax", cnn_net},
      {"mnist_mlp", "784-256-256-10 with ReLU on 28×28 grey images, logits", mnist_mlp},
      {"deep_mlp", "784-128-9×512-10 with ReLU on 28×28 grey images, logits", deep_mlp},
      {"vgg11", "VGG-11 on 32×32 color images, 10 classes, logits", [] { return vgg11(); }},
      {"gpt_nano", "a transformer of 3 layers, 48 wide, on 11 tokens of 3, logits", [] { return gpt(); }},
      {"resnet18", "ResNet-18 on 224×224 color images, 1000 classes, logits", [] { return resnet18(); }},
  };
  return models;
}

Graph zoo_model(const std::string& name) {
  const auto found = std::ranges::find(zoo(), name, &ZooModel::name);
  if (found != zoo().end()) return found->build();
  std::vector<std::string> names;
  for (const ZooModel& model : zoo()) names.push_back(model.name);
  throw ConfigError(fmt::format("there is no model '{}'; there are: {}", name, fmt::join(names, ", ")));
}

}  // namespace rookery
