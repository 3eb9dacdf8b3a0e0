// A data set hands out samples of named tensors, by number; the Root alone has it.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "models/graph/passes/loss.hpp"
#include "models/tensor/tensor.hpp"

namespace rookery {

// An epoch of a training.
struct TrainingPass {
  std::uint64_t seed = 0;
  std::int64_t epoch = 0;
  std::span<const std::int64_t> order;  // all samples that train
};

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
  // Memory that it holds once it is open, and the most that it comes to hold.
  virtual std::int64_t bytes() const = 0;
  virtual std::int64_t most_bytes() const { return bytes(); }
  // Copies the tensor `name` of the samples `ids`, one after the other. `into` has its dtype and its
  // elements for as many samples.
  virtual void gather(const std::string& name, std::span<const std::int64_t> ids, TensorView into) const = 0;
  // The same as the epoch sees them: augmented, where the data set is (augment/augmented_dataset.hpp). A
  // function of seed, epoch and sample alone.
  virtual void gather_training(const std::string& name, std::span<const std::int64_t> ids,
                               const TrainingPass& /*pass*/, TensorView into) const {
    gather(name, ids, into);
  }

  // Are samples there for the asking? The others are read ahead of their training, by several threads, each
  // of which calls gather(), and in it takes up to bytes_per_reader().
  virtual bool is_at_hand() const { return true; }
  virtual std::int64_t bytes_per_reader() const { return 0; }
  // For how many samples a reader calls gather(): as many as are read side by side, where they lie far.
  virtual int samples_at_once() const { return 4; }

  // Which samples train and which validate, where the data set's name says so and not train.json.
  struct OwnSplit {
    double train_fraction = 1;
    std::uint64_t seed = 0;
  };
  virtual std::optional<OwnSplit> split() const { return std::nullopt; }
  // Of all that there is to read; the same wherever a copy of the data set lies. 0 where nobody has looked.
  virtual std::uint64_t digest() const { return 0; }
  // Names of the classes that its labels are, from 0 on; none where it has no names for them.
  virtual std::vector<std::string> class_names() const { return {}; }
  // What is to be told of it to who plans with it, a line each.
  virtual std::vector<std::string> warnings() const { return {}; }
};

// How samples that are not at hand are read.
struct ReadingSettings {
  int readers = 2;              // threads
  int prefetch = 4;             // batches ahead of the one that is trained
  std::int64_t cache_mib = 64;  // for what was read, so that later epochs need not
  bool operator==(const ReadingSettings&) const = default;
};

// By the name that train.json has for it: one of data_formats() (formats.hpp), with options where wanted:
// "csv:datasets/digits.csv.gz?scale=16", "shapes?classes=2&seed=1". Relative paths are below `node_data`;
// what lies elsewhere has an address (trainer/storage/place.hpp). Files named .gz are gzip. DataError naming
// file, line or offset; ConfigError for a name or an option that is none.
std::unique_ptr<Dataset> open_dataset(const std::string& name, const std::filesystem::path& node_data,
                                      const ReadingSettings& reading = {});

}  // namespace rookery
