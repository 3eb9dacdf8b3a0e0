#include "trainer/averaging/weighted_averager.hpp"

#include <algorithm>
#include <utility>

namespace rookery {

WeightedAverager::WeightedAverager(AveragedRun run, Executable& executable, Rings& rings)
    : run_(std::move(run)),
      executable_(executable),
      rings_(rings),
      schedule_(run_.settings, run_.steps_per_epoch(), run_.validates) {
  if (!parse_compression(run_.settings.averaging.compression).is_lossy()) return;
  const auto state = executable_.training_state();
  for (const RingMember& ring : rings_.members()) {
    for (const std::string& tensor : ring.tensors)
      if (is_parameter(tensor)) residuals_.emplace(tensor, state.at(tensor).type);
  }
}

std::map<std::string, TensorView> WeightedAverager::state() {
  std::map<std::string, TensorView> state;
  for (auto& [tensor, residual] : residuals_) state.emplace(residual_key(tensor), residual.view());
  return state;
}

float WeightedAverager::weight(std::int64_t begin, std::int64_t end) const {
  std::int64_t all = 0;
  for (int cluster = 0; cluster < run_.shares.clusters(); ++cluster)
    all += run_.samples_of(cluster, scheduled(begin), scheduled(end));
  const std::int64_t own = run_.samples_of(run_.shares.cluster, scheduled(begin), scheduled(end));
  return static_cast<float>(static_cast<double>(own) / static_cast<double>(all));
}

float WeightedAverager::weight_of_round(std::int64_t steps_done, int fragment) const {
  const std::int64_t last = schedule_.last_before(scheduled(steps_done), fragment) + steps_ahead_;
  return weight(std::max(first_step_, last), steps_done);
}

bool WeightedAverager::is_parameter(const std::string& tensor) const {
  const Graph& graph = executable_.stage().graph;
  return graph.value(graph.at(tensor)).kind == ValueKind::kParameter;
}

std::span<float> WeightedAverager::residual_of(const std::string& tensor) {
  const auto residual = residuals_.find(tensor);
  return residual == residuals_.end() ? std::span<float>() : residual->second.as<float>();
}

}  // namespace rookery
