// Lists the models of the zoo with their figures, for `clusterize --list-models`.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "models/base/files/json_file.hpp"

namespace rookery {

struct ModelFigures {
  std::string name;
  std::string summary;
  std::vector<std::string> options;  // "image_size=224": each with the value that holds without it
  std::int64_t parameters = 0;       // elements; tied ones once
  double forward_flops = 0;          // of one sample
  std::int64_t training_bytes =
      0;  // planned for the whole model on one machine, with Adam, nothing recomputed
};

// The figures of every model, at this many samples a batch. ConfigError where that is too many.
std::vector<ModelFigures> zoo_figures(std::int64_t batch_size);

// A table, and a list of objects of the same.
std::string describe_models(const std::vector<ModelFigures>& models, std::int64_t batch_size);
OrderedJson to_json(const std::vector<ModelFigures>& models, std::int64_t batch_size);

}  // namespace rookery
