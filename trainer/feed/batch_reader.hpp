// Reads the batches of an epoch or a validation ahead of their turn, on threads of its own, and on into the
// next one, so that no pass begins with waiting.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "trainer/data/dataset.hpp"
#include "trainer/settings/cluster_shares.hpp"

namespace rookery {

// What is read does not depend on the number of readers. One thread, beside the readers; the data set
// outlives the reader.
class BatchReader {
 public:
  // Reads the tensors `tensors` of batches of up to `batch_size` samples. Its memory is taken now.
  BatchReader(const Dataset& dataset, const std::vector<std::string>& tensors,
              const ReadingSettings& settings, std::int64_t batch_size);
  ~BatchReader();

  // The most memory that it takes, that of readers in the data set included.
  static std::int64_t bytes(const Dataset& dataset, const ReadingSettings& settings, std::int64_t batch_size);

  struct Pass {
    std::shared_ptr<const std::vector<std::int64_t>> order;
    std::vector<SampleRange> batches;   // of it
    std::optional<TrainingPass> epoch;  // none: as validation sees the samples
  };
  // Begins to read the batches of a pass; what is left of the one before is given up. Where that has come to
  // its end, and this is the one that was to follow, what was read of it already stays.
  void start(Pass pass);
  // The pass that follows, if nothing comes between: its batches are read when all of this one are.
  void follow(Pass pass);
  // Waits for the next of the batches, which is `batch`, and gives up the one before. Throws what reading one
  // of its samples has thrown, the first of them; Interrupted when a stop signal comes.
  void next(SampleRange batch);
  // Of the batch at hand: the tensor `name` of these of its samples. Valid until the next one.
  std::span<const std::byte> samples(const std::string& name, SampleRange range) const;
  // How long next() has waited for readers.
  double seconds_waited() const;

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace rookery
