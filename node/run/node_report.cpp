#include "node/run/node_report.hpp"

namespace rookery {

NodeReport report_of(const Trainer& trainer) {
  const StepTimes times = trainer.step_times();
  const auto per = [](double seconds, std::int64_t count) {
    return count == 0 ? 0 : 1e3 * seconds / static_cast<double>(count);
  };
  NodeReport report;
  report.steps = trainer.steps_done();
  report.waiting = trainer.times().waiting;
  report.reading = trainer.seconds_reading();
  report.compared_steps = times.steps;
  report.forward_ms = per(times.work.forward, times.work.micro_batches);
  report.backward_ms = per(times.work.backward, times.work.micro_batches);
  report.update_ms = per(times.work.update, times.steps);
  report.step_ms = per(times.seconds, times.steps);
  return report;
}

}  // namespace rookery
