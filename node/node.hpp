// A provider's whole life: its metadata, its stage, its links on the network, and the Trainer it runs.
// A program of one's own is a few lines around it (docs/library.md, provider_main.cpp).
#pragma once

#include <functional>
#include <memory>

#include "clusterize/plan/node_metadata.hpp"
#include "node/run/node_options.hpp"
#include "node/run/node_report.hpp"
#include "trainer/trainer.hpp"

namespace rookery {

// A Node has what lives as long as the process (NodeProcess) and what lives as long as its plan (PlanRun).
// One thread.
class Node {
 public:
  // Keeps clusterize from replacing the plan as long as it lives, reads the metadata, takes the room on the
  // disk for what training will write, listens at the node's address, reads the data set (stage 0) and
  // compiles the stage. ConfigError, DataError, TransportError. Where there are peers, stop signals are
  // caught from then on (models/base/process/stop_signals.hpp) and end the run of all clusters: while it
  // trains between two steps, with a checkpoint, where stops_between_steps()
  // (trainer/checkpoint/checkpointer.hpp).
  explicit Node(NodeOptions options);
  ~Node();

  const NodeMetadata& metadata() const;
  // Memory of the stage as compiled, by what it is for.
  const MemoryUse& memory() const;

  // Waits for the peers, trains, writes the trained submodel, and ends together with the others. When
  // anything fails here, the others are told why; but once this node has made all steps, its weights are
  // saved whatever else fails, and when they cannot be saved in their place (TrainedFile), this run alone
  // ends with that DataError, after all have ended in good order. `loop` trains in place of Trainer::run():
  // it must do the same as the other nodes' loops.
  NodeReport run(const std::function<void(Trainer&)>& loop = &Trainer::run);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace rookery
