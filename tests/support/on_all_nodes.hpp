// The nodes of several clusters as threads that agree on something.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <thread>
#include <vector>

#include "trainer/agreement.hpp"
#include "trainer/memory_link.hpp"

namespace rookery {

// Every node of clusters of so many stages; what each of them found, by cluster and stage.
template <typename Found>
std::vector<std::vector<Found>> on_all(const std::vector<int>& stages,
                                       const std::function<Found(Agreement&, int cluster)>& ask) {
  const int clusters = static_cast<int>(stages.size());
  const auto root_links = make_memory_links(clusters, std::chrono::seconds(30));
  std::vector<std::vector<std::unique_ptr<Link>>> pipelines;
  std::vector<std::vector<Found>> found;
  for (const int count : stages) {
    pipelines.push_back(make_memory_links(count, std::chrono::seconds(30)));
    found.emplace_back(static_cast<std::size_t>(count));
  }
  {
    std::vector<std::jthread> threads;
    for (int cluster = 0; cluster < clusters; ++cluster) {
      const auto at = static_cast<std::size_t>(cluster);
      for (int stage = 0; stage < stages[at]; ++stage) {
        threads.emplace_back([&, cluster, stage, at] {
          ClusterRoots roots(*root_links[at], cluster, clusters);
          Agreement agreement(*pipelines[at][stage], stage, stages[at],
                              stage == 0 && clusters > 1 ? &roots : nullptr);
          found[at][stage] = ask(agreement, cluster);
        });
      }
    }
  }
  return found;
}

}  // namespace rookery
