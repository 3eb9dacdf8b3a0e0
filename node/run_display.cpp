#include "node/run_display.hpp"

#include <algorithm>
#include <chrono>
#include <utility>

#include "models/base/check.hpp"
#include "models/base/libraries/format.hpp"
#include "models/base/process/program.hpp"

namespace rookery {
namespace {

constexpr std::chrono::milliseconds kRedrawPeriod{100};
constexpr std::size_t kSparklineColumns = 12;  // both with what they are of: within 80

bool is_progress(const ProviderEvent& event) {
  return event.kind == ProviderEvent::Kind::kProgress;
}

void put(std::FILE* stream, const std::string& text) {
  if (stream == stdout) return print_now(text + "\n");
  static_cast<void>(std::fputs((text + "\n").c_str(), stream));
  static_cast<void>(std::fflush(stream));
}

}  // namespace

RunDisplay::RunDisplay(const std::vector<std::string>& nodes) {
  for (const std::string& node : nodes) add(node);
}

void RunDisplay::add(const std::string& node) {
  rows_.push_back({.newest = {.node = node, .text = "starting"}});
}

void RunDisplay::show(const ProviderEvent& event, PaceTime now) {
  const auto row = std::ranges::find_if(rows_, [&](const Row& one) { return one.newest.node == event.node; });
  ROOKERY_CHECK(row != rows_.end(), "an event of {}, which is not shown here", event.node);
  // At the end what was reached last stays.
  const bool ends = event.kind == ProviderEvent::Kind::kDone && is_progress(row->newest);
  const bool is_news = to_line(row->newest) != to_line(event);
  if (!ends) row->newest = event;
  row->ended = event.kind == ProviderEvent::Kind::kDone || event.kind == ProviderEvent::Kind::kFailed;
  if (has_curves() && is_progress(event)) note_course(event);
  if (!shows_progress()) return;
  if (lines_.is_terminal()) {
    if (!is_progress(event) || now - drawn_ >= kRedrawPeriod) draw(now);
  } else if (ends || (is_progress(event) ? row->pace.is_due(event.progress, now) : is_news)) {
    print_line(*row, now);
  }
}

void RunDisplay::print(std::FILE* stream, const std::string& text) {
  without_live_lines([&] { put(stream, text); });
  drawn_ = {};
}

void RunDisplay::note_course(const ProviderEvent& event) {
  if (leaf_.empty() && event.role.ends_with("leaf")) leaf_ = event.node;
  if (event.node != leaf_) return;
  if (event.progress.loss) losses_.add(*event.progress.loss);
  const std::optional<double> accuracy = event.progress.accuracy;
  if (accuracy && (accuracies_.empty() || *accuracy != accuracies_.last())) accuracies_.add(*accuracy);
}

// "loss 2.30259 █▆▅▃▂▁▁ 0.01234  accuracy 11.50% ▁▅▇██ 97.50%"
LineParts RunDisplay::course() const {
  LineParts parts;
  if (!losses_.empty()) {
    parts.push_back({fmt::format("loss {:.5f} {} {:.5f}", losses_.first(), losses_.text(kSparklineColumns),
                                 losses_.last()),
                     kNewestLoss});
  }
  if (!accuracies_.empty()) {
    parts.push_back({fmt::format("accuracy {:.2f}% {} {:.2f}%", accuracies_.first(),
                                 accuracies_.text(kSparklineColumns), accuracies_.last()),
                     kAccuracy});
  }
  return parts;
}

void RunDisplay::tick(PaceTime now) {
  if (!shows_progress()) return;
  if (lines_.is_terminal()) {
    if (now - drawn_ >= kRedrawPeriod) draw(now);
    return;
  }
  for (Row& row : rows_) {
    if (row.pace.is_overdue(now)) print_line(row, now);
  }
}

void RunDisplay::finish() {
  if (lines_.is_terminal()) draw({});
  lines_.leave();
}

void RunDisplay::print_line(Row& row, PaceTime now) {
  put(stdout, to_line(row.newest));
  row.pace.note(now);
  if (row.ended) row.pace = {};
}

void RunDisplay::draw(PaceTime now) {
  std::vector<LineParts> parts;
  const Losses losses = has_curves() ? Losses::kLeftOut : Losses::kShown;
  for (const Row& row : rows_) parts.push_back(to_parts(row.newest, losses));
  if (LineParts below = course(); !below.empty()) parts.push_back(std::move(below));
  lines_.draw(parts);
  drawn_ = now;
}

}  // namespace rookery
