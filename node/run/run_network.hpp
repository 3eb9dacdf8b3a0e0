// A node's links to the other nodes of its plan.
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "clusterize/plan/node_metadata.hpp"
#include "models/graph/stage.hpp"
#include "node/run/node_options.hpp"
#include "node/transport/endpoint.hpp"
#include "trainer/encoding/compressed_link.hpp"

namespace rookery {

// A ring that the node is in. Its ranks are the numbers of the clusters.
struct OpenedRing {
  int id = 0;
  std::vector<std::string> parameters;  // and buffers that the ring averages, in the order of the stage's
  std::uint64_t under_way = 0;          // bytes, on each of its links
  std::unique_ptr<ZmqLink> link;
};

// A failure that ends one of the groups before its time ends all (EndpointOptions::groups_end_together). All
// calls belong to one thread, but that each ring's link, and that of the Roots, may be lent to one of its own
// between join() and leave().
class RunNetwork {
 public:
  // Listens at the node's address, and catches stop signals from then on, where there are other nodes; a
  // node that is alone has no sockets. TransportError, ConfigError.
  RunNetwork(const NodeOptions& options, const NodeMetadata& metadata, const Stage& stage);

  // Once, before all that follows: waits until all nodes are here that this one talks with. TransportError
  // naming those who did not come.
  void join();

  // The stages of its cluster, on which values and gradients travel as settings say; within the process where
  // it is the only one.
  Link& pipeline() { return compressed_ ? *compressed_ : *pipeline_; }
  // What its stage keeps of samples for that, which a checkpoint has (Reconstructions::state()); before the
  // first step it is told of the run's steps_ahead().
  std::map<std::string, TensorView> reconstructions();
  void begin_run(std::int64_t steps_ahead);
  // The same over the network, beneath; none for the only stage of a cluster.
  ZmqLink* pipeline_network() { return network_; }
  std::vector<OpenedRing>& rings() { return rings_; }  // by id
  ZmqLink* roots() { return roots_.get(); }            // of all clusters; none elsewhere than on a Root

  // The orderly end of all groups, the pipeline's last.
  void leave();
  // Ends the run of all nodes: they fail with "<this node> <reason>".
  void stop(const std::string& reason);

  // With reconstructions.
  std::int64_t buffer_bytes() const { return buffer_bytes_; }

 private:
  std::optional<Endpoint> endpoint_;  // where there are other nodes
  std::vector<EndpointPeer> peers_;
  std::vector<GroupOptions> groups_;  // of pipeline, rings and Roots, as far as there are these; until join()
  std::int64_t buffer_bytes_ = 0;
  EdgeEncoding encoding_;
  std::optional<Reconstructions> reconstructions_;
  int stage_ = 0;
  std::unique_ptr<Link> pipeline_;
  std::optional<CompressedLink> compressed_;  // where anything is encoded
  ZmqLink* network_ = nullptr;
  std::vector<OpenedRing> rings_;
  std::unique_ptr<ZmqLink> roots_;
};

}  // namespace rookery
