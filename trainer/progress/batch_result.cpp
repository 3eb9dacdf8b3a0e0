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

void BatchResult::scale(double factor) {
  if (factor == 1) return;
  loss *= factor;
  for (LossResult& part : losses) part.loss *= factor;
}

std::vector<double> to_numbers(const BatchResult& result) {
  std::vector<double> numbers{result.loss};
  for (const LossResult& part : result.losses) {
    numbers.push_back(part.loss);
    numbers.push_back(static_cast<double>(part.positions));
    numbers.push_back(static_cast<double>(part.correct));
  }
  return numbers;
}

BatchResult result_from(const std::vector<double>& numbers) {
  BatchResult result{.loss = numbers.at(0)};
  for (std::size_t i = 1; i + 2 < numbers.size(); i += 3) {
    result.losses.push_back({.loss = numbers[i],
                             .positions = static_cast<std::int64_t>(numbers[i + 1]),
                             .correct = static_cast<std::int64_t>(numbers[i + 2])});
  }
  return result;
}

std::optional<double> BatchResult::accuracy() const {
  for (const LossResult& part : losses) {
    if (const auto accuracy = part.accuracy()) return accuracy;
  }
  return std::nullopt;
}

}  // namespace rookery
