#include "trainer/progress/batch_result.hpp"

#include <algorithm>

namespace rookery {

void LossResult::add(const LossResult& other) {
  loss += other.loss;
  positions += other.positions;
  correct += other.correct;
}

std::optional<double> LossResult::accuracy() const {
  if (positions == 0) return std::nullopt;
  return 100.0 * static_cast<double>(correct) / static_cast<double>(positions);
}

void BatchResult::add(const BatchResult& other) {
  loss += other.loss;
  samples += other.samples;
  losses.resize(std::max(losses.size(), other.losses.size()));
  for (std::size_t i = 0; i < other.losses.size(); ++i) losses[i].add(other.losses[i]);
}

std::optional<double> BatchResult::accuracy() const {
  for (const LossResult& part : losses) {
    if (const auto accuracy = part.accuracy()) return accuracy;
  }
  return std::nullopt;
}

}  // namespace rookery
