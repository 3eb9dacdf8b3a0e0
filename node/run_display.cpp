#include "node/run_display.hpp"

#include <algorithm>
#include <chrono>
#include <utility>

#include "models/base/check.hpp"
#include "models/base/process/program.hpp"

namespace rookery {
namespace {

constexpr std::chrono::milliseconds kRedrawPeriod{100};

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
  for (const std::string& node : nodes) rows_.push_back({.newest = {.node = node, .text = "starting"}});
}

void RunDisplay::show(const ProviderEvent& event, PaceTime now) {
  const auto row = std::ranges::find_if(rows_, [&](const Row& one) { return one.newest.node == event.node; });
  ROOKERY_CHECK(row != rows_.end(), "an event of {}, which is not shown here", event.node);
  // At the end what was reached last stays.
  const bool ends = event.kind == ProviderEvent::Kind::kDone && is_progress(row->newest);
  const bool is_news = to_line(row->newest) != to_line(event);
  if (!ends) row->newest = event;
  row->ended = event.kind == ProviderEvent::Kind::kDone || event.kind == ProviderEvent::Kind::kFailed;
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

void RunDisplay::tick(PaceTime now) {
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
  for (const Row& row : rows_) parts.push_back(to_parts(row.newest));
  lines_.draw(parts);
  drawn_ = now;
}

}  // namespace rookery
