// The visible loop of a training run: epochs, batches, validation, saving, over a StageWorker. One
// Trainer a stage; all stages of a cluster run the same loop in step.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>

#include "models/runtime/executable.hpp"
#include "trainer/data/dataset.hpp"
#include "trainer/link.hpp"
#include "trainer/settings/settings.hpp"
#include "trainer/stage_worker.hpp"

namespace rookery {

// Told to whoever watches, after every step and validation.
struct Progress {
  std::int64_t epoch = 0;  // from 0
  std::int64_t epochs = 0;
  std::int64_t step = 0;   // steps done
  std::int64_t steps = 0;  // of the whole run
  double samples_per_second = 0;
  double seconds_left = 0;
  std::optional<double> loss;      // last stage
  std::optional<double> accuracy;  // last stage, percent, after a validation
};

struct TrainerOptions {
  TrainingSettings settings;
  DataSizes data;
  std::filesystem::path output = ".";                // losses.txt, val_accuracies.txt (last stage)
  std::function<void(const Progress&)> on_progress;  // called by the training thread
};

class Trainer {
 public:
  // `dataset` is needed on stage 0 and ignored elsewhere; everything outlives the Trainer.
  // ConfigError when data set, model and settings do not fit each other.
  Trainer(Executable& executable, Link& link, const Dataset* dataset, TrainerOptions options);
  ~Trainer();
  Trainer(const Trainer&) = delete;
  Trainer& operator=(const Trainer&) = delete;

  // The whole run, once. Throws what Link and files throw, with the step in the message, and
  // Interrupted between steps when a stop signal has come.
  void run();

  std::int64_t steps_done() const;
  WorkTimes times() const;
  // StageWorker's.
  std::uint64_t sample_digest() const;

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

// What CompileOptions a stage needs for this run.
CompileOptions compile_options(const TrainingSettings& settings, const DataSizes& data, int stage, int stages,
                               const KernelChoice& kernels);

}  // namespace rookery
