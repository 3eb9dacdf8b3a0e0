#include "clusterize/report/mixed_samples.hpp"

#include <algorithm>
#include <cstddef>
#include <string>
#include <vector>

#include "models/base/libraries/format.hpp"
#include "models/graph/passes/mixed_samples.hpp"
#include "trainer/settings/batch_sizes.hpp"

namespace rookery {
namespace {

// The first of them.
std::string told_ops(const std::vector<OpId>& ops, const Graph& graph) {
  constexpr std::size_t kTold = 3;
  std::vector<std::string> names;
  for (std::size_t i = 0; i < std::min(ops.size(), kTold); ++i)
    names.push_back(fmt::format("{} ({})", graph.op(ops[i]).name, graph.op(ops[i]).type));
  if (ops.size() > kTold) names.push_back(fmt::format("{} more", ops.size() - kTold));
  return fmt::format("{}", fmt::join(names, ", "));
}

}  // namespace

std::optional<std::string> mixed_samples(const TrainingTask& task, const ClusterPlan& plan) {
  const bool is_cut = plan.micro_batches > 1;
  const bool is_shared = plan.clusters.size() > 1;
  if (!is_cut && !is_shared) return std::nullopt;
  const std::vector<OpId> ops = mixing_ops(task.graph);
  if (ops.empty()) return std::nullopt;
  const ClusterShares shares = shares_of(plan, 0);
  const std::int64_t most = *std::ranges::max_element(shares.samples);
  return fmt::format(
      "samples of a batch act on each other in {}, which see at most {} of the {} samples of a step: another "
      "model is trained than by whole batches; {}{}{} avoids that",
      told_ops(ops, task.graph), micro_batch_size(most, plan.micro_batches), shares.joint(),
      is_cut ? "\"micro_batches\": 1" : "", is_cut && is_shared ? " on " : "",
      is_shared ? "one cluster" : "");
}

}  // namespace rookery
