#include "trainer/progress/tensorboard/weight_histograms.hpp"

#include <spdlog/spdlog.h>

#include "models/base/error.hpp"
#include "models/base/files/files.hpp"
#include "trainer/progress/tensorboard/run_folder.hpp"

namespace rookery {

void WeightHistograms::begin(const RunDescription& run) {
  every_ = run.settings.histograms;
  if (every_ == 0 || !run.settings.tensorboard) return;
  const std::filesystem::path folder = run_folder_of(output_, run.settings.model) / node_;
  try {
    make_directories(folder);
    events_.emplace(folder, run.from != nullptr ? run.from->step + 1 : 0);
  } catch (const DataError& error) {
    spdlog::warn("{}: training goes on without {}", error.what(), folder.string());
  }
}

void WeightHistograms::after_epoch(const Progress& progress, double /*mean_loss*/) {
  if (!events_ || (progress.epoch + 1) % every_ != 0) return;
  const StateViews state = executable_.state_views();
  const Graph& graph = executable_.stage().graph;
  for (const ValueId parameter : graph.parameters()) {
    const std::string& name = graph.value(parameter).name;
    const auto owned = state.find(name);
    if (owned == state.end()) continue;  // another stage's
    const HostTensor host(owned->second);
    events_->write_histogram(progress.step, "weights/" + name, host.view().as<float>());
  }
  events_->flush();
}

}  // namespace rookery
