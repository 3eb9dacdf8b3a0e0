// The data set of the quickstart, opened once.
#pragma once

#include <memory>

#include "tests/support/repository.hpp"
#include "trainer/data/dataset.hpp"

namespace rookery {

inline const Dataset& digits() {
  static const std::unique_ptr<Dataset> data = open_dataset("digits", kNodeData);
  return *data;
}

}  // namespace rookery
