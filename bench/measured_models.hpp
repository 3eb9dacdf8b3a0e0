// The models that benchmarks measure, by the names of bench/training_step.py.
#pragma once

#include <string>

#include "models/zoo/zoo.hpp"

namespace rookery {

// A model of the zoo, at the size that is measured where it is not the zoo's.
inline Graph measured_model(const std::string& name) {
  if (name == "vgg11") return vgg11({.image_size = 32, .classes = 10, .hidden = 0});
  if (name == "gpt_nano") return gpt();
  if (name == "resnet18") return resnet18({.image_size = 64});
  if (name == "transformer_block") {
    return gpt_block({.length = 128, .layers = 12, .heads = 12, .width = 768, .dropout = 0});
  }
  return zoo_model(name);
}

// The size of its batches.
inline std::int64_t measured_batch(const std::string& name) {
  if (name == "resnet18") return 16;
  return name == "transformer_block" ? 8 : 64;
}

}  // namespace rookery
