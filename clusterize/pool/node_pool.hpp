// node_data/node_configs.json: the machines there are. See node_data/README.md for every key.
#pragma once

#include <filesystem>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "models/base/files/json_file.hpp"

namespace rookery {

struct PoolNode {
  std::string id;       // "0"; the node is called node_<id>; of a further chunk of it "0.1"
  std::string address;  // "10.0.0.7:8080"
  double ram_gb = 0;    // GB of 10^9 bytes
  double bandwidth_mbps = 0;
  std::optional<double> gflops;  // sustained, single precision
  // The rate of sending and receiving, GB/s, where that takes time of the node's arithmetic; nothing: it
  // takes none.
  std::optional<double> transfer_gbps;
  std::string region;  // empty: none given
  // For arithmetic, with which its speed was measured; nothing: not said.
  std::optional<int> threads;
  // Others can open connections to it. One that is not, behind a home router for instance, opens all itself.
  bool reachable = true;
  std::string host;  // of the address; the same for all names of a machine for itself
  int chunk = 0;     // of its machine: see NodePool::divided()
};

struct LinkSpeed {
  double latency_ms = 0;
  double bandwidth_mbps = 0;
  bool operator==(const LinkSpeed&) const = default;
};

// Its nodes are known by their places in the order of their ids, from 0.
class NodePool {
 public:
  // ConfigError as of read_pool_document().
  static NodePool from_json(const Json& document, std::string_view file);
  static NodePool read(const std::filesystem::path& node_configs);

  // The pool without the nodes of these ids, of which it has to have more. ConfigError for an unknown id.
  NodePool without(const std::set<std::string>& ids) const;
  // The pool if these nodes, by their indices, could be reached, too.
  NodePool with_reachable(const std::vector<int>& nodes) const;
  // The pool where nodes that do not say how many threads they have share what others of their host leave of
  // so many processors: at least one each.
  NodePool with_threads(int processors) const;
  // The pool where node i is as many nodes as there are numbers ram_gb[i], one for each chunk of the model
  // that its machine has, with this much of its memory and all of its speed. The first keeps id and address;
  // the others listen at ports of their own (further_address()).
  NodePool divided(const std::vector<std::vector<double>>& ram_gb) const;

  const std::vector<PoolNode>& nodes() const { return nodes_; }  // ids in rising order
  int size() const { return static_cast<int>(nodes_.size()); }
  int threads(int index) const { return node(index).threads.value_or(1); }
  const PoolNode& node(int index) const { return nodes_[index]; }
  // All numbers of threads() that there are.
  std::set<int> all_threads() const;
  // The most specific of links, regions and default, never faster than either node's own connection; where
  // none is given, what nodes on one machine, or of one local network, have; what nodes on one machine have
  // in any case between two chunks of one. Symmetric; between indices of nodes().
  LinkSpeed link(int from, int to) const;
  // The number of a node's machine, which it shares with its other chunks alone.
  int machine(int index) const { return machine_of_.empty() ? index : machine_of_[index]; }
  bool has_chunks() const { return !machine_of_.empty(); }
  // Can one of two nodes open a connection to the other?
  bool can_connect(int a, int b) const { return node(a).reachable || node(b).reachable; }
  // The rate of all that a node sends and receives, Mbit/s: its own connection, or where all nodes are on one
  // machine and no network is given, what that allows.
  double connection_mbps(int index) const;
  // True once any node gives gflops or the pool has a network: then `throughput` is the default
  // objective.
  bool has_speeds() const;

 private:
  std::size_t index_of(const std::string& id) const;
  // The most specific of links, regions and default; null where none is given.
  const LinkSpeed* given_link(std::size_t a, std::size_t b) const;
  void number_regions(const std::map<std::pair<std::string, std::string>, LinkSpeed>& ways);

  std::vector<PoolNode> nodes_;
  using Pair = std::pair<std::size_t, std::size_t>;  // the smaller one first
  std::optional<LinkSpeed> default_;
  std::vector<std::size_t> region_of_;                 // by node
  std::vector<std::optional<LinkSpeed>> region_ways_;  // region by region
  std::size_t regions_ = 0;
  std::map<Pair, LinkSpeed> links_;  // of nodes
  std::vector<int> machine_of_;      // by node; empty: each is a machine
};

}  // namespace rookery
