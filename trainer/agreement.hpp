// Numbers on which all nodes of a run agree: of one pipeline, or of several clusters whose Roots tell each
// other what theirs have said.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "trainer/link.hpp"

namespace rookery {

// The Roots of a plan's clusters, each of which talks to the next one. One thread; the link outlives it.
class ClusterRoots {
 public:
  // `link` is that of the Roots' group: a rank is a cluster.
  ClusterRoots(Link& link, int cluster, int clusters) : link_(link), cluster_(cluster), clusters_(clusters) {}

  // The numbers of every cluster, by cluster, on all Roots; each gives as many. Called by all of them in the
  // same order; a step and a name are used once in a run.
  std::vector<std::vector<double>> all_gather(std::int64_t step, const std::string& what,
                                              std::vector<double> own);

  Link& link() const { return link_; }
  int cluster() const { return cluster_; }
  int clusters() const { return clusters_; }
  // The neighbours in the ring.
  int next() const { return (cluster_ + 1) % clusters_; }
  int before() const { return (cluster_ + clusters_ - 1) % clusters_; }

 private:
  Link& link_;
  const int cluster_, clusters_;
};

// Every node of the run calls the same functions in the same order; a step and a name are used once in a run.
// One thread; what it is made of outlives it.
class Agreement {
 public:
  // `roots`: where there are several clusters, on their Roots.
  Agreement(Link& pipeline, int stage, int stages, ClusterRoots* roots = nullptr)
      : link_(pipeline), stage_(stage), stages_(stages), roots_(roots) {}

  // On every node the number that the Root of cluster 0 has.
  std::int64_t told_by_root(std::int64_t step, const std::string& what, std::int64_t number);
  // On every node the least number that one has.
  std::int64_t least_of_all(std::int64_t step, const std::string& what, std::int64_t number);
  // On every Leaf the sum over the clusters of the numbers that their Leaves have, each as many; elsewhere
  // what was given, which is as many numbers, too.
  std::vector<double> sum_of_leaves(std::int64_t step, const std::string& what, std::vector<double> numbers);

  Link& link() const { return link_; }
  int stage() const { return stage_; }
  int stages() const { return stages_; }
  ClusterRoots* roots() const { return roots_; }

 private:
  std::int64_t told_in_pipeline(const MessageKey& key, std::int64_t number);

  Link& link_;
  const int stage_, stages_;
  ClusterRoots* const roots_;
};

}  // namespace rookery
