// Takes over the state of a run from the parts that the stages of another plan have written (resharding): a
// stage reads what it needs from those in its own node_data, and is sent what these lack by stages that have
// the others.
#pragma once

#include <cstdint>
#include <filesystem>

#include "models/runtime/executable.hpp"
#include "trainer/link.hpp"
#include "trainer/progress/run_state.hpp"
#include "trainer/settings/resume_point.hpp"

namespace rookery {

// No message of it is larger.
constexpr std::uint64_t kCheckpointPieceBytes = 1U << 16;

// Called by all stages at once, before they train. Goes on from the checkpoint of `from`; where not all of
// its parts are on one stage's machine or another, or one is damaged, from the newest before it, which the
// log tells. DataError when there is none: which parts are missing, or the tensor that no part has.
RunState reshard(const std::filesystem::path& node_data, const ResumePoint& from, Executable& executable,
                 Link& link);

}  // namespace rookery
