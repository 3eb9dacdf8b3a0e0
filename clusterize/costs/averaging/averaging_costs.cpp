#include "clusterize/costs/averaging/averaging_costs.hpp"

#include <algorithm>
#include <memory>

#include "models/base/memo.hpp"
#include "models/graph/stage.hpp"
#include "trainer/averaging/averagers.hpp"

namespace rookery {
namespace {

double bytes_per_byte(const Graph& graph, const TrainingSettings& settings) {
  AveragedLoad load;
  for (const ValueId id : averaged_values(graph)) {
    const Value& value = graph.value(id);
    RingLoad& of_kind = value.kind == ValueKind::kParameter ? load.parameters : load.buffers;
    of_kind.numbers += static_cast<std::uint64_t>(value.type.shape.elements());
    ++of_kind.tensors;
  }
  const double parameters = static_cast<double>(load.parameters.numbers) * sizeof(float);
  // Two members send each byte once.
  return parameters == 0 ? 0 : round_bytes(settings, load, 2) / parameters;
}

}  // namespace

AveragingCosts averaging_costs(const Graph& graph, const TrainingSettings& settings, const DataSizes& data) {
  // The search asks again and again.
  const auto known = std::make_shared<Memo<int, RoundRate, std::hash<int>>>();
  const auto rate = [settings, data](int clusters) {
    const std::int64_t steps = batches_per_epoch(clusters * settings.batch_size, data.train_samples);
    return RoundSchedule(settings, std::max<std::int64_t>(1, steps), data.validation_samples > 0).rate();
  };
  return {
      .rate = [known, rate](int clusters) { return known->get(clusters, [&] { return rate(clusters); }); },
      .bytes_per_byte = bytes_per_byte(graph, settings)};
}

double exposed_seconds(const RoundRate& rate, const RoundSeconds& round, double step_seconds) {
  const double waited = rate.waited * round.whole;
  if (rate.overlapped == 0) return waited;
  const double longer = std::max(0.0, round.fragment - rate.steps_beside * step_seconds);
  return waited + rate.overlapped * rate.fragments * longer;
}

double mean_seconds(const RoundRate& rate, const RoundSeconds& round) {
  if (rate.overlapped == 0) return round.whole;
  const double of_fragments = rate.overlapped * rate.fragments;
  return (rate.waited * round.whole + of_fragments * round.fragment) / (rate.waited + of_fragments);
}

}  // namespace rookery
