// Data sets in memory: samples of named tensors, read once by the Root.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "models/graph/passes/loss.hpp"
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
  // Do the labels continue the input: is the label at a place the token that comes next there? What is asked
  // for is then found token by token (fusion/decode.hpp).
  virtual bool is_continued() const { return false; }
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
// Files named .gz are gzip, others plain. Relative paths are below `node_data`.
// Computed, without a file; options are given as "NAME?key=value&key=value":
// "sorter": sequences of digits and the same sorted behind, "input" and "labels" i64[batch, 2 length - 1]
// with
//   the labels -100 where nothing is asked. length (6), digits (3), samples (all of them, but 20000 at most).
// "masked_words": pairs of sentences of a made-up language: "input_ids", "token_type_ids", "attention_mask",
//   "labels" i64[batch, length], -100 but for masked words, "next_sentence_label" i64[batch]. Tokens are
//   words + 4. samples (10000), length (32), words (252), branches (3), seed (0).
// "shapes": "input" f32[batch, 3, image_size, image_size] from 0 to 1, "labels" i64[batch] and, of two
// classes,
//   "answers" f32[batch, 1]. samples (5000), image_size (32), classes (10), seed (0).
// DataError naming file, line or offset; ConfigError for a name or an option that is none.
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
