// The figures of every node of a cluster among the run's curves: each tells the Leaf its own, which keeps
// all.
#pragma once

#include <chrono>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "node/transport/zmq_link.hpp"
#include "trainer/progress/run_log.hpp"

namespace rookery {

struct FiguresOptions {
  ZmqLink* network = nullptr;      // of the pipeline; none in a cluster of one; outlives the exchange
  std::vector<std::string> nodes;  // of the cluster, by stage
  int stage = 0;                   // this node's
  // Fills in what the node knows of rounds with other clusters; may be empty.
  std::function<void(NodeFigures&)> add_rounds;
  std::chrono::steady_clock::duration period = std::chrono::seconds(1);  // of telling, at least
  // On the Leaf: takes curves' names and numbers.
  std::function<void(std::int64_t step, const std::vector<std::pair<std::string, double>>&)> keep;
};

// Once in a period, after an update. Of each node, since the last time: "node_1/computing" and
// "node_1/waiting", shares of the time, and "node_1/sent_mbit_per_second", of tensors to all of its cluster,
// and with "/node_2" behind it to that one; "node_1/memory_mb", what is resident now; with async
// "node_1/staleness", the mean of its micro-batches; and where there are rounds, "node_1/rounds" until now,
// the share "node_1/waiting_for_rounds", and "node_1/sent_mbit_per_second/rounds". One thread, the one that
// trains.
class FiguresExchange : public RunLog {
 public:
  explicit FiguresExchange(FiguresOptions options);

  void after_update(const Progress& progress, const BatchResult& batch) override;

 private:
  using Numbers = std::vector<std::pair<std::string, double>>;
  NodeFigures own(const Progress& progress) const;
  void keep(std::int64_t step, int stage, const NodeFigures& now);
  void add_sent(Numbers& numbers, const std::string& prefix, const NodeFigures& before,
                const NodeFigures& now) const;

  const FiguresOptions options_;
  const bool is_leaf_;
  std::vector<NodeFigures> last_;  // by stage
  std::chrono::steady_clock::time_point told_ = std::chrono::steady_clock::now();
};

}  // namespace rookery
