// A provider's whole life: its metadata, its stage, its links on the network, and the Trainer it runs.
// A program of one's own is a few lines around it (docs/library.md, provider_main.cpp).
#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>

#include "clusterize/plan/node_metadata.hpp"
#include "trainer/trainer.hpp"

namespace rookery {

struct NodeOptions {
  std::string name;  // "node_0"
  std::filesystem::path node_data = "node_data";
  std::filesystem::path output = ".";  // of the logs
  // "HOST:PORT" to listen at; empty: the address at which the plan says that others reach this node.
  std::string listen;
  std::chrono::milliseconds wait_for_peers{300'000};
  // Of the Root; none: the one that the plan names. Outlives the node.
  const Dataset* dataset = nullptr;
  int threads = 1;  // for the arithmetic of the thread that calls run()
  // All may be empty. Progress holds loss and accuracy on every node: the last stage tells them to all.
  std::function<void(const Progress&)> on_progress;         // called by run()'s thread
  std::function<void(const std::string& text)> on_waiting;  // "waiting for node_1 (…)"; any thread
  std::function<void()> on_training;                        // all peers are here; called by run()'s thread
};

// What was measured, beside what clusterize predicted (NodeMetadata::prediction).
struct NodeReport {
  std::int64_t steps = 0;
  double seconds = 0;  // training and validation
  double waiting = 0;  // of these, in receive()
  double stolen = 0;   // CpuSteal's share meanwhile
  // Milliseconds, means over `compared_steps`: those of a whole batch that follow another step.
  std::int64_t compared_steps = 0;
  double forward_ms = 0;   // per micro-batch
  double backward_ms = 0;  // per micro-batch
  double update_ms = 0;    // per step
  double step_ms = 0;
  // Resident besides what the plan counts: program, libraries, sockets.
  std::int64_t floor_bytes = 0;
  std::int64_t peak_bytes = 0;  // resident at most (VmHWM)
};

// ConfigError for a plan that cannot be run: one with several clusters.
void check_runnable(const NodeMetadata& metadata);

// One thread.
class Node {
 public:
  // Keeps clusterize from replacing the plan as long as it lives, reads the metadata, takes the room on the
  // disk for what training will write, listens at the node's address, reads the data set (stage 0) and
  // compiles the stage. ConfigError, DataError, TransportError. Where there are peers, stop signals are
  // caught from then on (models/base/process/program.hpp) and end the whole cluster's run.
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
