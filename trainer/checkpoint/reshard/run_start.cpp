#include "trainer/checkpoint/reshard/run_start.hpp"

#include <algorithm>
#include <vector>

#include "trainer/averager.hpp"
#include "trainer/checkpoint/reshard/reshard.hpp"
#include "trainer/checkpoint/reshard/sync.hpp"
#include "trainer/checkpoint/reshard/told_by_all.hpp"
#include "trainer/encoding/reconstructions.hpp"

namespace rookery {
namespace {

// Where clusters have residuals of their own, those of others are not for them. Reconstructions begin anew:
// stages of another cut send other values.
RunState take_over(const ResumePoint& point, const RunStart& start, bool takes, Executable& executable,
                   const Agreement& agreement) {
  ReshardedNode node{.node_data = start.owner.node_data, .cluster = start.owner.cluster};
  if (takes) {
    node.sees_samples = executable.stage().is_root() || executable.stage().is_leaf();
    node.needs = executable.training_state();
    node.may_have = start.further;
    std::erase_if(node.may_have, [&](const auto& entry) {
      const bool is_of_another = is_residual_key(entry.first) && point.cluster != start.owner.cluster;
      return is_of_another || is_reconstruction_key(entry.first);
    });
  }
  return reshard(point, node, agreement);
}

// Of the checkpoints that there are, on all nodes, of which one that `takes` nothing has no use for its own.
std::optional<RunState> go_on(const RunStart& start, bool resumes, bool takes, Executable& executable,
                              const Agreement& agreement) {
  if (resumes) {
    auto run = go_on_from_newest(start.owner, takes ? &executable : nullptr, agreement, start.further);
    if (run) return run;
  }
  std::optional<ResumePoint> of_others = start.plan;
  if (resumes && start.clusters > 1)
    if (const auto newest = newest_of_a_cluster(start.owner, agreement, takes)) of_others = newest;
  if (!of_others) return std::nullopt;
  return take_over(*of_others, start, takes, executable, agreement);
}

}  // namespace

std::optional<RunState> start_run(const RunStart& start, Executable& executable, const Agreement& agreement) {
  std::vector<StartChoice> choices{start.choice};
  if (start.clusters > 1)
    choices = choices_of_clusters(told_by_all_as(agreement, "how providers were started", start.choice));
  const auto takes_other = [](const StartChoice& choice) { return choice.sync_from.has_value(); };
  const bool resumes = std::ranges::any_of(choices, &StartChoice::resume);
  const bool takes = !start.choice.sync_from;
  std::optional<RunState> run = go_on(start, resumes, takes, executable, agreement);
  if (std::ranges::none_of(choices, takes_other)) return run;
  return sync_state(choices, start.owner.cluster, run, executable, agreement, start.further);
}

}  // namespace rookery
