// Data sets in memory: samples of named tensors, read once by the Root.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "models/graph/loss.hpp"
#include "models/tensor/tensor.hpp"
#include "trainer/settings/settings.hpp"

namespace rookery {

class Dataset {
 public:
  virtual ~Dataset() = default;
  virtual std::int64_t size() const = 0;
  // What every sample has, by name: types whose first dimension is kBatch. Those of images and tables are
  // "input", f32[batch, elements], and "labels", i64[batch].
  virtual const ValueTypes& tensors() const = 0;
  // Memory that it holds.
  virtual std::int64_t bytes() const = 0;
  // Copies the tensor `name` of the samples `ids`, one after the other. `into` has its dtype and its
  // elements for as many samples.
  virtual void gather(const std::string& name, std::span<const std::int64_t> ids, TensorView into) const = 0;
};

// "digits": NODE_DATA/datasets/digits.csv.gz, values / 16.
// "csv:FILE": one sample a line, its label last; "csv:FILE?scale=S" divides the values by S.
// "idx:FOLDER": the folder's *images-idx3-ubyte[.gz] and *labels-idx1-ubyte[.gz], values / 255.
// "tensors:FILE": a safetensors file, every tensor with the samples along its first dimension.
// Files named .gz are gzip, others plain.
// Relative paths are below `node_data`. DataError naming file, line or offset.
std::unique_ptr<Dataset> open_dataset(const std::string& name, const std::filesystem::path& node_data);

// Sample ids for training and validation: the first train_fraction of all (rounded down), in file
// order or in an order drawn from the seed.
struct Split {
  std::vector<std::int64_t> train;
  std::vector<std::int64_t> validation;
};
Split split_dataset(std::int64_t samples, const TrainingSettings& settings);

// What the run needs to know of a data set, and plans with: memory includes the order of the samples.
DataSizes data_sizes(const Dataset& dataset, const TrainingSettings& settings);

// The order in which epoch `epoch` goes through the training ids.
std::vector<std::int64_t> epoch_order(std::span<const std::int64_t> train_ids, std::uint64_t seed,
                                      std::int64_t epoch);

}  // namespace rookery
