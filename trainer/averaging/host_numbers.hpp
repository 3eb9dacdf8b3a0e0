// The numbers of f32 tensors as the host has them: their own memory, or a copy of a device's that is written
// back.
#pragma once

#include <list>
#include <span>
#include <utility>

#include "models/tensor/tensor.hpp"

namespace rookery {

// Several tensors that are changed together.
class HostNumbers {
 public:
  std::span<float> of(TensorView tensor) {
    if (tensor.device == nullptr) return tensor.as<float>();
    Copy& made = copies_.emplace_back(tensor, Tensor(tensor.type));
    rookery::copy(tensor, made.second.view());
    return made.second.as<float>();
  }
  void write_back() {
    for (auto& [tensor, numbers] : copies_) rookery::copy(std::as_const(numbers).view(), tensor);
  }

 private:
  using Copy = std::pair<TensorView, Tensor>;
  std::list<Copy> copies_;  // which stay where they are
};

}  // namespace rookery
