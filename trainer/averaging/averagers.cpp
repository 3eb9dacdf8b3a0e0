#include "trainer/averaging/averagers.hpp"

#include <span>
#include <utility>
#include <vector>

#include "models/base/check.hpp"
#include "trainer/averaging/gradient_averager.hpp"
#include "trainer/averaging/periodic_averager.hpp"
#include "trainer/settings/batch_sizes.hpp"

namespace rookery {
namespace {

bool is_lossy(const TrainingSettings& settings) {
  return parse_compression(settings.averaging.compression).is_lossy();
}

// What travels as it is, and what is encoded.
std::pair<RingLoad, RingLoad> loads(const TrainingSettings& settings, const AveragedLoad& of) {
  std::pair<RingLoad, RingLoad> loads{of.buffers, of.parameters};
  if (settings.averaging.mode == "parameters" && settings.averaging.optimizer) {
    const std::size_t states = make_optimizer(settings.optimizer)->state_names().size();
    loads.first.numbers += states * of.parameters.numbers;
    loads.first.tensors += states * of.parameters.tensors;
  }
  return loads;
}

}  // namespace

std::int64_t AveragedRun::steps_per_epoch() const {
  return batches_per_epoch(shares.joint(), train_samples);
}

std::int64_t AveragedRun::samples_of(int of, std::int64_t begin, std::int64_t end) const {
  const auto before = [&](std::int64_t step) {
    const std::int64_t within = step % steps_per_epoch() * shares.joint();
    return step / steps_per_epoch() * shares.trained_of(of, train_samples) + shares.trained_of(of, within);
  };
  return before(end) - before(begin);
}

std::int64_t averager_bytes(const TrainingSettings& settings, const AveragedLoad& stage) {
  const AveragingSettings& averaging = settings.averaging;
  const bool is_diloco = averaging.mode == "diloco";
  std::uint64_t numbers = 0;
  if (is_lossy(settings)) numbers += stage.parameters.numbers;  // residuals
  if (is_diloco || (averaging.mode == "parameters" && is_lossy(settings)))
    numbers += stage.parameters.numbers;
  if (is_diloco) numbers += stage.parameters.numbers;  // momentum; the others were anchors
  if (averaging.overlapped_updates() > 0) {
    const auto [plain, encoded] = loads(settings, stage);
    numbers += 2 * (plain.numbers + encoded.numbers);
  }
  return static_cast<std::int64_t>(numbers * sizeof(float));
}

RingTraffic round_traffic(const TrainingSettings& settings, const AveragedLoad& ring, int clusters,
                          std::uint64_t under_way) {
  const auto [plain, encoded] = loads(settings, ring);
  return ring_traffic(plain, encoded, parse_compression(settings.averaging.compression), clusters, under_way);
}

double round_bytes(const TrainingSettings& settings, const AveragedLoad& ring, int clusters) {
  const auto [plain, encoded] = loads(settings, ring);
  return ring_bytes(plain, encoded, parse_compression(settings.averaging.compression), clusters);
}

std::unique_ptr<StatefulAverager> make_averager(AveragedRun run, Executable& executable, Rings& rings) {
  const std::string mode = run.settings.averaging.mode;
  if (mode == "gradients") return std::make_unique<GradientAverager>(std::move(run), executable, rings);
  ROOKERY_CHECK(mode == "parameters" || mode == "diloco", "averaging {}", mode);
  return std::make_unique<PeriodicAverager>(std::move(run), executable, rings);
}

}  // namespace rookery
