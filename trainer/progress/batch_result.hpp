// The results that the Leaf has of a batch: losses, and hits where targets are class indices.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

namespace rookery {

// The result of one batch for one of the model's losses.
struct LossResult {
  double loss = 0;
  // Where targets are class indices: positions that count, and those whose largest output is their label.
  std::int64_t positions = 0;
  std::int64_t correct = 0;

  void add(const LossResult& other);
  std::optional<double> accuracy() const;  // percent; nothing without positions
};

// The result of one batch for all of them.
struct BatchResult {
  double loss = 0;                 // their weighted sum
  std::vector<LossResult> losses;  // in the order of losses_of()
  std::int64_t samples = 0;

  void add(const BatchResult& other);
  void scale(double factor);               // the losses; 1 changes nothing
  std::optional<double> accuracy() const;  // of the first loss that has one
};

// All of a result but its samples, as numbers that may be added: 1 + 3 · losses. And back.
std::vector<double> to_numbers(const BatchResult& result);
BatchResult result_from(const std::vector<double>& numbers);

}  // namespace rookery
