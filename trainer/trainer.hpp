// The visible loop of a training run: epochs, batches, validation, over a StageWorker. One Trainer a stage;
// all stages of a cluster run the same loop in step.
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
  std::optional<double> loss;  // last stage
  // Last stage, percent, after a validation: of the first loss whose targets are class indices.
  std::optional<double> accuracy;
};

struct TrainerOptions {
  TrainingSettings settings;
  DataSizes data;
  // The last stage writes losses.txt, a line a step, and val_losses.txt and, where targets are class indices,
  // val_accuracies.txt, a line a validation. With several losses a first line says what the columns are: the
  // weighted sum and each loss, or the accuracy of each that has one.
  std::filesystem::path output = ".";
  std::function<void(const Progress&)> on_progress;  // called by the training thread
};

// What steps took: of those of a whole batch that follow another step at once, so that neither the start of
// the run nor a validation is in it.
struct StepTimes {
  std::int64_t steps = 0;
  double seconds = 0;  // from the end of one to the end of the next
  WorkTimes work;
};

// What the last stage knows of the validation samples; elsewhere it is empty.
struct Validation {
  double loss = 0;                 // mean over the samples
  std::optional<double> accuracy;  // percent; of what is classified
};

class Trainer {
 public:
  // `dataset` is needed on stage 0 and ignored elsewhere; everything outlives the Trainer.
  // ConfigError when data set, model and settings do not fit each other.
  Trainer(Executable& executable, Link& link, const Dataset* dataset, TrainerOptions options);
  ~Trainer();
  Trainer(const Trainer&) = delete;
  Trainer& operator=(const Trainer&) = delete;

  // The whole run, once: every epoch, with validations and the learning rate of the settings. Throws what
  // Link and files throw, with the step in the message, and Interrupted between steps when a stop signal has
  // come.
  void run();

  // What run() is made of, for loops of one's own: every stage must do the same in the same order. (Of the
  // learning rate schedules run() alone follows `plateau`.)
  double train_epoch(std::int64_t epoch);  // the mean loss over the samples on the last stage
  Validation validate(std::int64_t epoch);

  std::int64_t steps_done() const;
  WorkTimes times() const;
  StepTimes step_times() const;
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
