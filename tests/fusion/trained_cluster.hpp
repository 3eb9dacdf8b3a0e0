// A plan of three nodes with trained submodels, without a training.
#pragma once

#include <sys/wait.h>

#include <cstdlib>
#include <filesystem>
#include <string>
#include <vector>

#include "clusterize/plan/node_metadata.hpp"
#include "clusterize/plan/trained_file.hpp"
#include "models/base/files/files.hpp"
#include "models/base/libraries/format.hpp"
#include "models/base/rng.hpp"
#include "models/graph/passes/loss.hpp"
#include "models/graph/state/initialize.hpp"
#include "models/graph/state/state_dict.hpp"
#include "models/io/safetensors/safetensors.hpp"
#include "models/runtime/executable.hpp"
#include "models/zoo/zoo.hpp"
#include "tests/support/scratch_folder.hpp"
#include "trainer/checkpoint/checkpoint_part.hpp"

namespace rookery {

// cnn_net's state with running statistics as after some training.
inline StateDict trained_cnn_net() {
  StateDict state = initial_state(cnn_net(), 7);
  for (auto& [name, tensor] : state) {
    CounterRng rng(rng_key(1, name), 0);
    if (name.ends_with("num_batches_tracked")) tensor.as<std::int64_t>()[0] = 170;
    if (!name.starts_with("bn_") || tensor.type().dtype != DType::kF32) continue;
    for (float& element : tensor.as<float>()) element = 0.5F + rng.next_float();
  }
  return state;
}

// Everything that model_fusion reads, in a folder of its own.
class TrainedCluster {
 public:
  static constexpr std::int64_t kStep = 1700;

  TrainedCluster() : state_(trained_cnn_net()) {
    Graph graph = cnn_net();
    add_loss(graph, "mse");
    const std::vector<OpId> cuts = cut_positions(graph);
    stages_ = cut(graph, std::vector<OpId>{0, cuts[5], cuts[12]});
    for (const Stage& stage : stages_) {
      NodeMetadata node;
      node.node = fmt::format("node_{}", stage.index);
      node.address = fmt::format("0.0.0.0:{}", 8080 + stage.index);
      node.plan_id = "0123456789abcdef";
      node.token = "0123456789abcdef0123456789abcdef";
      node.stage = stage.index;
      node.stages = stage.count;
      node.data = {.train_samples = 1078, .validation_samples = 719};
      nodes_.push_back(std::move(node));
    }
    for (NodeMetadata& node : nodes_) {
      for (const NodeMetadata& member : nodes_) {
        node.members.push_back({member.node, member.address, member.stage});
      }
    }
    for (std::size_t i = 0; i < nodes_.size(); ++i) {
      write_metadata(node_data(), nodes_[i]);
      write_trained(node_data(), nodes_[i], state_of(i), kStep);
    }
  }

  const std::filesystem::path& node_data() const { return folder_.path(); }
  const NodeMetadata& node(std::size_t i) const { return nodes_[i]; }
  const StateDict& state() const { return state_; }
  std::filesystem::path submodel(std::size_t i) const { return trained_path(node_data(), nodes_[i]); }
  // The same weights at kStep of a run with these settings, and momenta.
  void write_checkpoint(const TrainingSettings& settings) const {
    for (std::size_t i = 0; i < nodes_.size(); ++i) {
      StateDict state = state_of(i);
      for (const ValueId id : stages_[i].graph.parameters()) {
        const std::string& name = stages_[i].graph.value(id).name;
        state.emplace(optimizer_key("momentum", name), state.at(name).clone());
      }
      const CheckpointOwner owner{node_data(), nodes_[i].plan_id, nodes_[i].stage, nodes_[i].stages};
      write_part(part_path(owner, kStep), owner,
                 {.run = {.step = kStep}, .settings = settings, .kernels = {{"dense_1", "onednn"}}},
                 views_of(state));
    }
  }
  std::filesystem::path checkpoint() const { return checkpoints_folder(node_data()) / fmt::to_string(kStep); }

  StateDict state_of(std::size_t i) const {
    StateDict state;
    for (const auto& [name, tensor] : state_) {
      if (stages_[i].graph.find(name)) state.emplace(name, tensor.clone());
    }
    return state;
  }

 private:
  ScratchFolder folder_;
  StateDict state_;
  std::vector<Stage> stages_;
  std::vector<NodeMetadata> nodes_;
};

// Runs a command; its standard output.
struct CommandResult {
  int exit_code = 0;
  std::string output;
};

inline CommandResult run_command(const std::string& command) {
  const ScratchFolder folder;
  const std::filesystem::path output = folder.path() / "output";
  const int status = std::system(fmt::format("{} > '{}' 2>&1", command, output.string()).c_str());
  return {WIFEXITED(status) ? WEXITSTATUS(status) : -1, read_file(output, 1 << 20)};
}

}  // namespace rookery
