// Fills the inputs of a model and of its losses from a data set.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "models/graph/passes/loss.hpp"
#include "trainer/data/dataset.hpp"

namespace rookery {

// The types of the losses' targets, for add_loss().
ValueTypes target_types(const Dataset& dataset, const LossSettings& loss);

// One thread; the data set outlives the source.
class SampleSource {
 public:
  // `graph` is a model with its losses, or the Root's stage of it. An input gets the tensor of its name; the
  // only input that is no target gets the only tensor that is none, whatever they are called. Dtypes must be
  // equal, and shapes too, but that samples without a shape of their own, [elements], take any with as many.
  // ConfigError for an input without a tensor that fits.
  SampleSource(const Dataset& dataset, const Graph& graph, const LossSettings& loss);

  // The samples over which losses take their mean.
  void set_batch(std::span<const std::int64_t> ids);
  // The tensor of the data set that an input gets; none where it gets numbers of samples or positions.
  std::optional<std::string> tensor_of(const std::string& value) const;
  // Those of all inputs, each once.
  std::vector<std::string> tensors() const;
  // Fills the input `value` for the samples `ids`, some of that batch.
  void fill(const std::string& value, std::span<const std::int64_t> ids, TensorView into) const;

 private:
  const Dataset& dataset_;
  std::map<std::string, std::string> tensors_;  // input -> tensor of the data set
  // Numbers of counted positions: of which target, without which label, and how many in this batch.
  struct Counted {
    std::string target;
    std::int64_t ignored = 0;
    std::int64_t positions = 0;
  };
  std::map<std::string, Counted> counted_;  // by input
};

// DataError naming the first sample whose label one of the graph's losses has no class for.
void check_labels(const Dataset& dataset, const Graph& graph);

}  // namespace rookery
