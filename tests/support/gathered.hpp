// Takes from a data set what it hands out.
#pragma once

#include <string>
#include <vector>

#include "trainer/data/dataset.hpp"

namespace rookery {

template <typename Number>
std::vector<Number> gathered(const Dataset& dataset, const std::string& name,
                             const std::vector<std::int64_t>& ids) {
  Tensor tensor(dtype_of<Number>(), dataset.tensors().at(name).shape.with_batch(std::ssize(ids)));
  dataset.gather(name, ids, tensor.view());
  return {tensor.as<Number>().begin(), tensor.as<Number>().end()};
}

}  // namespace rookery
