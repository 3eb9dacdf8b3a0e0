// A data set hands out samples of named tensors, from memory or computed; the Root alone has it.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>

#include "models/graph/passes/loss.hpp"
#include "models/tensor/tensor.hpp"

namespace rookery {

class Dataset {
 public:
  virtual ~Dataset() = default;
  virtual std::int64_t size() const = 0;
  // The tensors that every sample has, by name: types whose first dimension is kBatch. Those of images and
  // tables are "input", f32[batch, elements], and "labels", i64[batch].
  virtual const ValueTypes& tensors() const = 0;
  // Do the labels continue the input: is the label at a place the token that comes next there? What is asked
  // for is then found token by token (fusion/inference/decode.hpp).
  virtual bool is_continued() const { return false; }
  // Memory that it holds.
  virtual std::int64_t bytes() const = 0;
  // Copies the tensor `name` of the samples `ids`, one after the other. `into` has its dtype and its
  // elements for as many samples.
  virtual void gather(const std::string& name, std::span<const std::int64_t> ids, TensorView into) const = 0;
};

// By the name that train.json has for it: one of data_formats() (formats.hpp), with options where wanted:
// "csv:datasets/digits.csv.gz?scale=16", "shapes?classes=2&seed=1". Relative paths are below `node_data`;
// files named .gz are gzip, others plain. DataError naming file, line or offset; ConfigError for a name or an
// option that is none.
std::unique_ptr<Dataset> open_dataset(const std::string& name, const std::filesystem::path& node_data);

}  // namespace rookery
