// Whole training runs of several clusters in one process: every stage a thread, joined by MemoryLink.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "tests/support/pipeline.hpp"
#include "trainer/agreement.hpp"
#include "trainer/averaging/averagers.hpp"
#include "trainer/averaging/fragments.hpp"
#include "trainer/averaging/ring/rings.hpp"

namespace rookery {

struct TestRing {
  std::vector<std::string> tensors;
  std::vector<int> stages;  // by cluster
};

// As clusterize makes them.
inline std::vector<TestRing> rings_of(const Graph& graph, const std::vector<std::vector<Stage>>& clusters) {
  std::vector<TestRing> rings;
  for (const ValueId id : averaged_values(graph)) {
    const std::string& name = graph.value(id).name;
    std::vector<int> stages;
    for (const std::vector<Stage>& cluster : clusters) {
      for (const Stage& stage : cluster) {
        for (const ValueId own : stage.owned_averaged_values())
          if (stage.graph.value(own).name == name) stages.push_back(stage.index);
      }
    }
    if (rings.empty() || rings.back().stages != stages) rings.push_back({.stages = stages});
    rings.back().tensors.push_back(name);
  }
  return rings;
}

struct ClustersResult {
  std::vector<PipelineResult> clusters;
  // After each step at which all clusters hold the same model, by cluster, where it was asked for.
  std::map<std::int64_t, std::vector<StateDict>> united;
};

// Trains `model` on clusters cut like this, each with its share of a step; all go on from `from`, where it is
// not nullptr. `snapshots`: of each cluster, filled as those of PipelineOptions.
inline ClustersResult run_clusters(const Graph& model, const std::vector<std::vector<OpId>>& cuts,
                                   const std::vector<std::int64_t>& shares, const TrainingSettings& settings,
                                   const Dataset& dataset, bool keeps_united = false,
                                   const Snapshot* from = nullptr,
                                   std::vector<std::map<std::int64_t, Snapshot>>* snapshots = nullptr) {
  const std::chrono::seconds deadline(60);
  Graph graph = model;
  add_loss(graph, settings.loss, target_types(dataset, settings.loss));
  const Split split = split_dataset(dataset.size(), settings);
  std::vector<std::vector<Stage>> stages;
  for (const std::vector<OpId>& begins : cuts) stages.push_back(cut(graph, begins));
  const std::vector<TestRing> rings = rings_of(graph, stages);
  const int clusters = static_cast<int>(cuts.size());

  std::vector<std::vector<std::unique_ptr<Link>>> ring_links;
  for (std::size_t i = 0; i < rings.size(); ++i) ring_links.push_back(make_memory_links(clusters, deadline));
  const auto root_links = make_memory_links(clusters, deadline);

  ClustersResult result;
  result.clusters.resize(cuts.size());
  if (snapshots != nullptr) snapshots->resize(cuts.size());
  std::mutex mutex;
  FirstError error;
  const auto run_cluster = [&](int cluster) {
    const auto at = static_cast<std::size_t>(cluster);
    struct OfStage {
      std::unique_ptr<Rings> rings;
      std::unique_ptr<StatefulAverager> averager;
      std::unique_ptr<ClusterRoots> roots;
    };
    std::vector<OfStage> parts(stages[at].size());
    PipelineOptions options;
    options.shares = ClusterShares{.cluster = cluster, .samples = shares};
    options.from = from;
    if (snapshots != nullptr) options.snapshots = &snapshots->at(at);
    options.make_trainer_options = [&](const Stage& stage, Executable& executable, Link& /*link*/,
                                       TrainerOptions made) {
      OfStage& part = parts[stage.index];
      std::vector<RingMember> members;
      for (std::size_t i = 0; i < rings.size(); ++i) {
        if (rings[i].stages[at] == stage.index)
          members.push_back({static_cast<int>(i), rings[i].tensors, ring_links[i][at].get()});
      }
      part.rings = std::make_unique<Rings>(members, cluster, clusters,
                                           parse_compression(settings.averaging.compression));
      part.averager = make_averager({.settings = settings,
                                     .shares = *options.shares,
                                     .train_samples = made.data.train_samples,
                                     .validates = made.data.validation_samples > 0,
                                     .fragments = fragments_of(graph, settings.averaging.fragments)},
                                    executable, *part.rings);
      const RunState begun = from == nullptr ? RunState() : from->state;
      part.averager->begin(begun.step, steps_ahead(begun, options.shares->joint(), made.data.train_samples));
      made.averager = part.averager.get();
      if (stage.is_root()) part.roots = std::make_unique<ClusterRoots>(*root_links[at], cluster, clusters);
      made.roots = part.roots.get();
      if (keeps_united) {
        made.between_steps = [&](const RunState& now, bool /*is_end*/) {
          const std::scoped_lock lock(mutex);
          auto& states = result.united[now.step];
          states.resize(cuts.size());
          states[at].merge(executable.state());
        };
      }
      return made;
    };
    try {
      result.clusters[at] = run_pipeline(model, cuts[at], settings, dataset, options);
    } catch (...) {
      error.keep(std::current_exception());
      for (auto& links : ring_links) links[at].reset();  // so that the others fail, too
    }
  };
  {
    std::vector<std::jthread> threads;
    for (int cluster = 0; cluster < clusters; ++cluster)
      threads.emplace_back([&, cluster] { run_cluster(cluster); });
  }
  error.rethrow();
  return result;
}

}  // namespace rookery
