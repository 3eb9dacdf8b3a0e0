// The options that a provider is started with.
#pragma once

#include <chrono>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>

#include "node/transport/slow_network.hpp"
#include "trainer/checkpoint/reshard/start_choice.hpp"
#include "trainer/data/dataset.hpp"
#include "trainer/progress/run_log.hpp"
#include "trainer/schedule/compute_turn.hpp"

namespace rookery {

struct NodeOptions {
  std::string name;  // "node_0"
  std::filesystem::path node_data = "node_data";
  std::filesystem::path output = ".";  // of the logs
  std::filesystem::path trace;         // file for what was done when (work_trace.hpp); empty: none
  // "HOST:PORT" to listen at; empty: the address at which the plan says that others reach this node.
  std::string listen;
  std::chrono::milliseconds wait_for_peers{300'000};
  // For trying a slower network than there is, that the nodes of a machine share; null: as fast as it is.
  std::shared_ptr<SlowNetwork> slow_network;
  // The Root's data set; none: the one that the plan names. Outlives the node.
  const Dataset* dataset = nullptr;
  StartChoice start;  // where the run begins
  // For the arithmetic of the thread that calls run(); nothing: as many as the plan says, but no more than
  // the node's share of the processors that the process may use.
  std::optional<int> threads;
  // Where its machine has other nodes, with which it takes turns (node/machine.hpp); outlives the node.
  ComputeTurn* turn = nullptr;
  // All may be empty. Progress holds loss and accuracy on every node: the Leaf tells them to all.
  std::function<void(const Progress&)> on_progress;         // called by run()'s thread
  std::function<void(const std::string& text)> on_waiting;  // "waiting for node_1 (…)"; any thread
  std::function<void()> on_training;                        // all peers are here; called by run()'s thread
};

}  // namespace rookery
