#include "node/status/figures_exchange.hpp"

#include <algorithm>

#include "models/base/process/process_memory.hpp"

namespace rookery {
namespace {

double mbit_per_second(std::uint64_t before, std::uint64_t now, double seconds) {
  return 8e-6 * (static_cast<double>(now) - static_cast<double>(before)) / seconds;
}

}  // namespace

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
                      .resident = static_cast<std::uint64_t>(process_memory().resident),
                      .micro_batches = progress.micro_batches,
                      .staleness = progress.staleness};
  if (options_.network != nullptr) figures.sent = options_.network->bytes_sent();
  if (options_.add_rounds) options_.add_rounds(figures);
  return figures;
}

// In all to the stages of its cluster, and to each that it sends something.
void FiguresExchange::add_sent(Numbers& numbers, const std::string& prefix, const NodeFigures& before,
                               const NodeFigures& now) const {
  const double seconds = now.seconds - before.seconds;
  double all = 0;
  for (std::size_t to = 0; to < std::min(now.sent.size(), options_.nodes.size()); ++to) {
    if (now.sent[to] == 0) continue;
    const double rate = mbit_per_second(to < before.sent.size() ? before.sent[to] : 0, now.sent[to], seconds);
    numbers.emplace_back(prefix + "sent_mbit_per_second/" + options_.nodes[to], rate);
    all += rate;
  }
  numbers.emplace_back(prefix + "sent_mbit_per_second", all);
}

void FiguresExchange::keep(std::int64_t step, int stage, const NodeFigures& now) {
  const auto at = static_cast<std::size_t>(stage);
  const NodeFigures before = std::exchange(last_[at], now);
  const double seconds = now.seconds - before.seconds;
  if (!(seconds > 0)) return;
  const std::string prefix = options_.nodes[at] + "/";
  Numbers numbers{{prefix + "computing", (now.computing - before.computing) / seconds},
                  {prefix + "waiting", (now.waiting - before.waiting) / seconds},
                  {prefix + "memory_mb", static_cast<double>(now.resident) / 1e6}};
  add_sent(numbers, prefix, before, now);
  if (now.staleness > before.staleness)
    numbers.emplace_back(prefix + "staleness",
                         static_cast<double>(now.staleness - before.staleness) /
                             static_cast<double>(now.micro_batches - before.micro_batches));
  if (now.rounds > 0) {
    numbers.emplace_back(prefix + "rounds", static_cast<double>(now.rounds));
    numbers.emplace_back(prefix + "waiting_for_rounds", (now.exposed - before.exposed) / seconds);
    numbers.emplace_back(prefix + "sent_mbit_per_second/rounds",
                         mbit_per_second(before.round_bytes, now.round_bytes, seconds));
  }
  options_.keep(step, numbers);
}

}  // namespace rookery
