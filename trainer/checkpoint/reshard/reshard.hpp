// Takes over the state of a run from the parts that the stages of another plan have written (resharding): a
// stage reads what it needs from those in its own node_data, and is sent what these lack by nodes that have
// the others: of its cluster, or of another one where none of its own has them.
#pragma once

#include <filesystem>
#include <map>
#include <optional>
#include <string>

#include "models/runtime/executable.hpp"
#include "trainer/agreement.hpp"
#include "trainer/checkpoint/checkpoint_part.hpp"
#include "trainer/progress/run_state.hpp"
#include "trainer/settings/resume_point.hpp"

namespace rookery {

// A node whose state follows.
struct ReshardedNode {
  std::filesystem::path node_data;
  int cluster = 0;
  bool sees_samples = false;  // Root or Leaf
  // By the names in the parts: what the node needs, and what it takes over where a part has it. Nothing: the
  // node only gives.
  std::map<std::string, TensorView> needs;
  std::map<std::string, TensorView> may_have;
};

// Called by all nodes of all clusters at once, before they train. Goes on from the checkpoint of `from`;
// where not all of its parts are on one node's machine or another, or one is damaged, from the newest before
// it, which the log tells. DataError when there is none: which parts are missing, or the tensor that no part
// has. Several clusters each take over all of it, from the parts of one.
RunState reshard(const ResumePoint& from, const ReshardedNode& node, const Agreement& agreement);

// Called by all nodes of all clusters at once: the newest checkpoint of this plan of which all stages of some
// cluster have their part, for runs of which a cluster has lost its own; nothing where none has all. The
// parts of a cluster that does not offer its own are none.
std::optional<ResumePoint> newest_of_a_cluster(const CheckpointOwner& owner, const Agreement& agreement,
                                               bool offers_own = true);

}  // namespace rookery
