// Where a run begins: at its first step, after a checkpoint, or with the state that another cluster has.
#pragma once

#include <optional>

#include "models/runtime/executable.hpp"
#include "trainer/agreement.hpp"
#include "trainer/checkpoint/checkpoint_part.hpp"
#include "trainer/checkpoint/checkpointer.hpp"
#include "trainer/checkpoint/reshard/start_choice.hpp"
#include "trainer/progress/run_state.hpp"
#include "trainer/settings/resume_point.hpp"

namespace rookery {

struct RunStart {
  CheckpointOwner owner;
  int clusters = 1;
  StartChoice choice;
  std::optional<ResumePoint> plan;  // what the plan was made to go on from
  FurtherState further;
};

// Called by all nodes of all clusters at once, before they train; nothing where they begin at the first step.
// A checkpoint of this plan, where one is asked for and all nodes have their part of one; else that of a
// cluster whose nodes have theirs; else what the plan was made to go on from. Then clusters that are to begin
// with another's state are sent it. What choices_of_clusters(), go_on_from_newest(), reshard() and
// sync_state() throw.
std::optional<RunState> start_run(const RunStart& start, Executable& executable, const Agreement& agreement);

}  // namespace rookery
