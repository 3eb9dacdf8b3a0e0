// Takes over the state of a run from the parts that the stages of another plan have written (resharding): a
// stage reads what it needs from those in its own node_data, and is sent what these lack by stages that have
// the others. A part that no machine of its cluster has comes from another cluster first.
#pragma once

#include <cstdint>
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

// Called by all nodes of all clusters at once, before they train. Goes on from the checkpoint of `from`;
// where not all of its parts are on one node's machine or another, or one is damaged, from the newest before
// it, which the log tells. DataError when there is none: which parts are missing, or the tensor that no part
// has. Several clusters each take over all of it, from the parts of one: a Root copies to its node_data those
// that no machine of its cluster has. `averaging`: AveragingState of checkpointer.hpp.
RunState reshard(const std::filesystem::path& node_data, const ResumePoint& from, Executable& executable,
                 const Agreement& agreement, const std::map<std::string, TensorView>& averaging = {});

// Called by all nodes of all clusters at once: the newest checkpoint of this plan of which all stages of some
// cluster have their part, for runs of which a cluster has lost its own; nothing where none has all.
std::optional<ResumePoint> newest_of_a_cluster(const CheckpointOwner& owner, const Agreement& agreement);

}  // namespace rookery
