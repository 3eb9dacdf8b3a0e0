// Histograms of a stage's parameters for TensorBoard.
#pragma once

#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <utility>

#include "models/runtime/executable.hpp"
#include "trainer/progress/run_log.hpp"
#include "trainer/progress/tensorboard/event_file.hpp"

namespace rookery {

// Of those that the stage owns, after every so many epochs as the setting `histograms` says; otherwise it
// does nothing. Each node writes its own, as "weights/NAME", into an event file in runs/MODEL/NODE, since
// readers follow one file of a folder at a time. One thread, the one that trains.
//
// A file that cannot be made or written is a warning: nothing here ends a run.
class WeightHistograms : public RunLog {
 public:
  // `output` exists: runs/ is there. The Executable outlives it.
  WeightHistograms(std::filesystem::path output, std::string node, const Executable& executable)
      : output_(std::move(output)), node_(std::move(node)), executable_(executable) {}
  void begin(const RunDescription& run) override;
  void after_epoch(const Progress& progress, double mean_loss) override;

 private:
  const std::filesystem::path output_;
  const std::string node_;
  const Executable& executable_;
  int every_ = 0;  // epochs
  std::optional<EventFile> events_;
};

}  // namespace rookery
