#include "fusion/merge.hpp"

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "clusterize/plan/node_metadata.hpp"
#include "clusterize/plan/trained_file.hpp"
#include "models/base/error.hpp"
#include "models/base/libraries/format.hpp"
#include "models/tensor/same.hpp"

namespace rookery {
namespace {

std::vector<NodeMetadata> members_of(const std::filesystem::path& node_data, int cluster) {
  std::vector<NodeMetadata> members;
  std::set<int> clusters;
  for (NodeMetadata& node : read_all_metadata(node_data)) {
    clusters.insert(node.cluster);
    if (node.cluster == cluster) members.push_back(std::move(node));
  }
  if (members.empty()) {
    throw ConfigError(fmt::format("{}: the plan has no cluster {}; there are: {}",
                                  (node_data / "nodes").string(), cluster, fmt::join(clusters, ", ")));
  }
  return members;
}

// Collects the submodels of a cluster and what is wrong with them.
class Fusion {
 public:
  Fusion(const std::filesystem::path& node_data, const Graph& model) : node_data_(node_data), model_(model) {}

  void add(const NodeMetadata& node) {
    const std::filesystem::path path = trained_path(node_data_, node);
    if (!std::filesystem::exists(path)) {
      problem(
          "{} has no trained submodel: {} is missing (its provider has not finished, had \"save\": false, or "
          "the "
          "file was not copied here)",
          node.node, path.string());
      complete_ = false;
      return;
    }
    try {
      SafetensorsFile file = read_trained(path);
      with_context(path.string(), [&] { check_origin(node, file.metadata); });
      add_tensors(node, file.tensors);
    } catch (const DataError& error) {
      problem("{}: {}", node.node, error.what());
      complete_ = false;
    }
  }

  // The metadata of the run, once all submodels are there; DataError when anything was wrong.
  Metadata finish(int cluster) {
    check_ages();
    check_digests();
    if (complete_) check_tensors();
    if (!problems_.empty()) {
      throw DataError(fmt::format("cluster {} cannot be fused: {}", cluster, fmt::join(problems_, "; ")));
    }
    return std::move(run_);
  }

  StateDict take_state() { return std::move(state_); }

 private:
  template <typename... Parts>
  void problem(fmt::format_string<Parts...> format, Parts&&... parts) {
    problems_.push_back(fmt::format(format, std::forward<Parts>(parts)...));
  }

  static std::string entry(const Metadata& metadata, const std::string& key) {
    const auto found = metadata.find(key);
    if (found == metadata.end()) throw DataError(fmt::format("its metadata has no '{}'", key));
    return found->second;
  }

  void check_origin(const NodeMetadata& node, const Metadata& metadata) {
    if (entry(metadata, "plan_id") != node.plan_id) {
      throw DataError(
          fmt::format("it belongs to plan {}, but nodes/{}.json to plan {}: bring what one and the same run "
                      "has trained back "
                      "to its places",
                      entry(metadata, "plan_id"), node.node, node.plan_id));
    }
    for (const auto& [key, expected] :
         {std::pair("node", node.node), std::pair("stage", std::to_string(node.stage)),
          std::pair("cluster", std::to_string(node.cluster))}) {
      if (entry(metadata, key) != expected) {
        throw DataError(fmt::format("it is of {} {}, not {}: was it copied to the wrong folder?", key,
                                    entry(metadata, key), expected));
      }
    }
    run_ = {};
    for (const char* key :
         {"model", "data", "seed", "train_fraction", "split", "loss", "plan_id", "cluster", "step"}) {
      run_[key] = entry(metadata, key);
    }
    if (metadata.contains("augment")) run_["augment"] = metadata.at("augment");
    const std::string& step = run_["step"];
    if (step.empty() || step.size() > 18 || step.find_first_not_of("0123456789") != std::string::npos) {
      throw DataError(fmt::format("its metadata has the step '{}', which is no number", step));
    }
    ages_[step].push_back(node.node);
    if (const auto found = metadata.find("sample_digest"); found != metadata.end()) {
      digests_[found->second].push_back(node.node);
    }
  }

  bool is_fixed(const std::string& name) const {
    const auto id = model_.find(name);
    return id && model_.value(*id).fixed;
  }

  // Takes them over. What is fixed may be on several nodes, and is the same on all.
  void add_tensors(const NodeMetadata& node, StateDict& tensors) {
    for (auto& [name, tensor] : tensors) {
      const auto [owner, is_new] = owners_.emplace(name, node.node);
      if (is_new) {
        state_.emplace(name, std::move(tensor));
      } else if (!is_fixed(name) || !is_same(tensor, state_.at(name))) {
        problem("'{}' is in the submodels of both {} and {}", name, owner->second, node.node);
      }
    }
  }

  void check_ages() {
    if (ages_.size() < 2) return;
    std::vector<std::string> ages;
    for (const auto& [step, nodes] : ages_)
      ages.push_back(fmt::format("{} at step {}", fmt::join(nodes, ", "), step));
    problem("the submodels were saved at different steps: {}", fmt::join(ages, ", "));
  }

  void check_digests() {
    if (digests_.size() < 2) return;
    std::vector<std::string> digests;
    for (const auto& [digest, nodes] : digests_) {
      digests.push_back(fmt::format("{} (digest {})", fmt::join(nodes, ", "), digest));
    }
    problem("the submodels were trained on different samples: {}", fmt::join(digests, ", "));
  }

  void check_tensors() {
    try {
      check_state(model_, state_);
    } catch (const DataError& error) {
      problems_.emplace_back(error.what());
    }
  }

  std::filesystem::path node_data_;
  const Graph& model_;  // of join()'s caller
  bool complete_ = true;
  std::vector<std::string> problems_;
  StateDict state_;
  Metadata run_;
  std::map<std::string, std::string> owners_;                // tensor -> node
  std::map<std::string, std::vector<std::string>> ages_;     // step -> nodes
  std::map<std::string, std::vector<std::string>> digests_;  // sample digest -> nodes
};

struct Joined {
  StateDict state;
  Metadata run;
};

// What differs between the joined state of one cluster and another's: counters may, such as those of batches.
std::optional<std::string> difference(const Joined& one, const Joined& other) {
  if (one.run.at("step") != other.run.at("step"))
    return fmt::format("step {} where cluster 0 has step {}", other.run.at("step"), one.run.at("step"));
  std::vector<std::string> names;
  for (const auto& [name, tensor] : one.state) {
    if (tensor.type().dtype == DType::kF32 && !is_same(tensor, other.state.at(name))) names.push_back(name);
  }
  if (names.empty()) return std::nullopt;
  return fmt::format("other values than cluster 0 in {} of {} tensors, '{}' first", names.size(),
                     one.state.size(), names.front());
}

Joined join(const std::filesystem::path& node_data, const std::vector<NodeMetadata>& members,
            const Graph& model) {
  Fusion fusion(node_data, model);
  for (const NodeMetadata& node : members) fusion.add(node);
  Metadata run = fusion.finish(members.front().cluster);
  return {.state = fusion.take_state(), .run = std::move(run)};
}

}  // namespace

FusedModel fuse_cluster(const std::filesystem::path& node_data, int cluster) {
  const std::vector<NodeMetadata> members = members_of(node_data, cluster);
  const TrainingSettings& settings = members.front().settings;
  OpenedModel model = open_trained_model(settings, node_data);
  Joined joined = join(node_data, members, model.graph);
  return fused_model(std::move(model), settings, std::move(joined.state), std::move(joined.run));
}

FusedModel fuse_clusters(const std::filesystem::path& node_data) {
  const std::vector<NodeMetadata> members = members_of(node_data, 0);
  const TrainingSettings& settings = members.front().settings;
  OpenedModel model = open_trained_model(settings, node_data);
  Joined joined = join(node_data, members, model.graph);
  for (int cluster = 1; cluster < members.front().clusters; ++cluster) {
    const auto differs = difference(joined, join(node_data, members_of(node_data, cluster), model.graph));
    if (!differs) continue;
    throw DataError(
        fmt::format("the clusters do not hold one model: cluster {} has {}: are all of "
                    "them of one run? --cluster-id joins one of them",
                    cluster, *differs));
  }
  return fused_model(std::move(model), settings, std::move(joined.state), std::move(joined.run));
}

FusedModel fuse_cluster(const std::filesystem::path& node_data, int cluster, Graph model) {
  const std::vector<NodeMetadata> members = members_of(node_data, cluster);
  Joined joined = join(node_data, members, model);
  return fused_model(std::move(model), members.front().settings, std::move(joined.state),
                     std::move(joined.run));
}

}  // namespace rookery
