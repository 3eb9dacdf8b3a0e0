// Small pipelines for the tests of the simulator.
#pragma once

#include <algorithm>

#include "clusterize/simulation/step_simulation.hpp"
#include "models/base/rng.hpp"
#include "tests/clusterize/plan_support.hpp"
#include "trainer/settings/batch_sizes.hpp"

namespace rookery {

// The model of `task` cut at `begins`. Machines compute nothing and links are as good as infinitely fast.
inline PipelineModel pipeline_of(const TrainingTask& task, const std::vector<OpId>& begins) {
  constexpr double kFast = 1e18;
  PipelineModel model{.stages = cut(task.graph, begins),
                      .micro_batch = micro_batch_sizes(task.settings, task.settings.batch_size).front(),
                      .clips_gradients = task.settings.clip_gradient_norm.has_value()};
  const auto count = static_cast<int>(begins.size());
  model.work.resize(begins.size(), {.bytes_per_second = kFast});
  for (int from = 0; from < count; ++from) {
    std::vector<FlowWay>& links = model.links.emplace_back();
    for (int to = 0; to < count; ++to) links.push_back({.from = from, .to = to, .bytes_per_second = kFast});
  }
  return model;
}

inline std::vector<std::int64_t> sizes_of(const TrainingTask& task) {
  return micro_batch_sizes(task.settings, task.settings.batch_size);
}

// A pipeline of so many stages, cut anywhere, with machines and links that differ widely.
inline PipelineModel random_pipeline(const TrainingTask& task, int stages, CounterRng& rng) {
  std::vector<OpId> positions = cut_positions(task.graph);
  for (std::size_t i = positions.size(); i > 1; --i)
    std::swap(positions[i - 1], positions[rng.next_below(static_cast<std::uint32_t>(i))]);
  positions.resize(static_cast<std::size_t>(stages) - 1);
  positions.push_back(0);
  std::ranges::sort(positions);
  PipelineModel model = pipeline_of(task, positions);
  const auto between = [&rng](double least, double most) {  // evenly in their logarithms
    return least * std::pow(most / least, static_cast<double>(rng.next_float()));
  };
  for (StageWork& work : model.work) {
    work = {.forward = between(1e-4, 1e-2),
            .backward = between(1e-4, 1e-2),
            .recompute = rng.next_below(3) == 0,
            .update = between(1e-5, 1e-3),
            .bytes_per_second = between(1e5, 1e8)};
    if (work.recompute) work.backward += work.forward;
  }
  for (std::size_t from = 0; from < model.links.size(); ++from) {
    for (std::size_t to = 0; to < model.links.size(); ++to) {
      FlowWay& way = model.links[from][to];
      way.latency = between(1e-5, 1e-2);
      way.bytes_per_second =
          std::min({between(1e5, 1e8), model.work[from].bytes_per_second, model.work[to].bytes_per_second});
    }
  }
  return model;
}

}  // namespace rookery
