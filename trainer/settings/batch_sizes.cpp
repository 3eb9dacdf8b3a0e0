#include "trainer/settings/batch_sizes.hpp"

#include <algorithm>
#include <set>

#include "models/base/check.hpp"
#include "models/base/error.hpp"
#include "models/base/libraries/format.hpp"

namespace rookery {
namespace {

std::int64_t divide_up(std::int64_t a, std::int64_t b) {
  return (a + b - 1) / b;
}

// Those of batches of these sizes, largest first.
std::vector<std::int64_t> sizes_of(const TrainingSettings& settings,
                                   std::initializer_list<std::int64_t> batches) {
  std::set<std::int64_t, std::greater<>> sizes;
  for (const std::int64_t batch : batches) {
    for (const std::int64_t size : micro_batch_sizes(settings, batch)) sizes.insert(size);
  }
  return {sizes.begin(), sizes.end()};
}

}  // namespace

void check_validation(const TrainingSettings& settings, const DataSizes& data) {
  const LearningRateSchedule& schedule = settings.learning_rate_schedule;
  if (schedule.name != "plateau" || schedule.metric == "training_loss" || data.validation_samples > 0) return;
  throw ConfigError(fmt::format(
      "learning_rate_schedule/metric: \"{}\": train_fraction {} leaves no samples to validate with: "
      "give a smaller one, or \"metric\": \"training_loss\"",
      schedule.metric, settings.train_fraction));
}

int decided_micro_batches(const TrainingSettings& settings) {
  ROOKERY_CHECK(settings.micro_batches, "the number of micro-batches is not decided");
  return *settings.micro_batches;
}

std::int64_t micro_batch_size(std::int64_t batch_size, std::int64_t micro_batches) {
  return divide_up(batch_size, micro_batches);
}

std::vector<std::int64_t> micro_batch_sizes(const TrainingSettings& settings, std::int64_t samples) {
  ROOKERY_CHECK(samples >= 0 && samples <= settings.batch_size, "a batch of {} samples where {} is the most",
                samples, settings.batch_size);
  const std::int64_t size = micro_batch_size(settings.batch_size, decided_micro_batches(settings));
  std::vector<std::int64_t> sizes(samples / size, size);
  if (samples % size > 0) sizes.push_back(samples % size);
  return sizes;
}

std::vector<std::int64_t> training_sizes(const TrainingSettings& settings, const DataSizes& data,
                                         const ClusterShares& shares) {
  const std::int64_t joint = shares.joint();
  return sizes_of(settings, {shares.part_of(std::min(data.train_samples, joint)).count,
                             shares.part_of(data.train_samples % joint).count});
}

std::vector<std::int64_t> validation_sizes(const TrainingSettings& settings, const DataSizes& data,
                                           const ClusterShares& shares) {
  if (settings.validate_every == 0) return {};
  const std::int64_t own = shares.part_of(data.validation_samples).count;
  return sizes_of(settings, {std::min(own, settings.batch_size), own % settings.batch_size});
}

std::int64_t batches_per_epoch(std::int64_t batch_size, std::int64_t samples) {
  return divide_up(samples, batch_size);
}

}  // namespace rookery
