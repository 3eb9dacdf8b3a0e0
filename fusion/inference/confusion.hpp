// Which classes a model takes for which.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "models/graph/passes/loss.hpp"
#include "models/graph/state/state_dict.hpp"
#include "trainer/data/dataset.hpp"

namespace rookery {

struct Confusion {
  std::vector<std::string> classes;  // their names, or numbers where the data set has no names
  std::vector<std::int64_t> counts;  // samples by class and then by the class that the model says

  std::int64_t count(std::size_t of, std::size_t taken_for) const {
    return counts[of * classes.size() + taken_for];
  }
  std::int64_t samples(std::size_t of) const;         // of this class
  std::int64_t answers(std::size_t taken_for) const;  // samples that the model takes for this class
  // Right answers of the samples of a class, and of what is taken for it; nothing where there are none.
  std::optional<double> recall(std::size_t of) const;
  std::optional<double> precision(std::size_t taken_for) const;
};

// For the samples `ids`, by the first loss: where its target is a class index for each sample and its output
// [batch, classes], the class of the largest value; where it is one number for each sample, 0 or 1, and the
// output one logit (bce_with_logits), whether that is above 0. Nothing for other losses and outputs. `model`
// is without losses; `batch` samples at a time. DataError for a label that is no class of the output.
std::optional<Confusion> confusion_of(const Graph& model, const StateDict& state, const Dataset& dataset,
                                      const LossSettings& loss, std::span<const std::int64_t> ids,
                                      std::int64_t batch);

}  // namespace rookery
