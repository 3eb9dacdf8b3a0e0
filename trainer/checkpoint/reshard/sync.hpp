// Clusters that begin with the state that another one has in its memory, whatever the cuts of both.
#pragma once

#include <optional>
#include <vector>

#include "models/runtime/executable.hpp"
#include "trainer/agreement.hpp"
#include "trainer/checkpoint/checkpointer.hpp"
#include "trainer/checkpoint/reshard/start_choice.hpp"
#include "trainer/progress/run_state.hpp"

namespace rookery {

// Called by all nodes of all clusters at once, before they train: `choices` of all clusters, of which this is
// `cluster`, and `own`, where its run stands, of which those who are sent a state know nothing. These take
// over parameters, buffers, the outer optimizer's state and, where they asked for it, the optimizer's. Where
// the node's run stands then. DataError naming what the other cluster does not have, or has of another type.
std::optional<RunState> sync_state(const std::vector<StartChoice>& choices, int cluster,
                                   std::optional<RunState> own, Executable& executable,
                                   const Agreement& agreement, const FurtherState& further);

}  // namespace rookery
