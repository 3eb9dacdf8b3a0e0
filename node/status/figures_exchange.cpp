#include "node/status/figures_exchange.hpp"

#include "models/base/process/process_memory.hpp"

namespace rookery {

FiguresExchange::FiguresExchange(FiguresOptions options)
    : options_(std::move(options)),
      is_leaf_(options_.stage + 1 == static_cast<int>(options_.nodes.size())),
      last_(options_.nodes.size()) {}

void FiguresExchange::after_update(const Progress& progress, const BatchResult& /*batch*/) {
  const auto now = std::chrono::steady_clock::now();
  if (now - told_ < options_.period) return;
  told_ = now;
  const NodeFigures figures = own(progress);
  if (!is_leaf_) return options_.network->tell_figures(figures);
  for (int stage = 0; stage < options_.stage; ++stage) {
    if (const auto told = options_.network->take_figures(stage)) keep(progress.step, stage, *told);
  }
  keep(progress.step, options_.stage, figures);
}

NodeFigures FiguresExchange::own(const Progress& progress) const {
  NodeFigures figures{.seconds = progress.seconds,
                      .computing = progress.computing,
                      .waiting = progress.waiting,
                      .resident = static_cast<std::uint64_t>(process_memory().resident)};
  if (options_.network != nullptr) figures.sent = options_.network->bytes_sent();
  if (options_.add_rounds) options_.add_rounds(figures);
  return figures;
}

void FiguresExchange::keep(std::int64_t step, int stage, const NodeFigures& now) {
  const auto at = static_cast<std::size_t>(stage);
  const NodeFigures before = std::exchange(last_[at], now);
  const double seconds = now.seconds - before.seconds;
  if (!(seconds > 0)) return;
  const std::string prefix = options_.nodes[at] + "/";
  std::vector<std::pair<std::string, double>> numbers{
      {prefix + "computing", (now.computing - before.computing) / seconds},
      {prefix + "waiting", (now.waiting - before.waiting) / seconds},
      {prefix + "memory_mb", static_cast<double>(now.resident) / 1e6},
      {prefix + "sent_mbit_per_second", 8e-6 * static_cast<double>(now.sent - before.sent) / seconds}};
  if (now.rounds > 0) {
    numbers.emplace_back(prefix + "rounds", static_cast<double>(now.rounds));
    numbers.emplace_back(prefix + "waiting_for_rounds", (now.exposed - before.exposed) / seconds);
  }
  options_.keep(step, numbers);
}

}  // namespace rookery
