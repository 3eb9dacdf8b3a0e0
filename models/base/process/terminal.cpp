#include "models/base/process/terminal.hpp"

#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <limits>
#include <mutex>
#include <string_view>

#include "models/base/libraries/format.hpp"
#include "models/base/parse.hpp"
#include "models/base/text.hpp"

namespace rookery {
namespace {

constexpr std::size_t kGap = 2;
constexpr std::size_t kMostOfALine = 4096;  // bytes

std::mutex shown_mutex;      // of all LiveLines
LiveLines* shown = nullptr;  // drawn last, and not left
bool progress_is_shown = true;

// 0 where it is not there or no sensible number.
int number_of_environment(const char* name) {
  const char* text = std::getenv(name);
  if (text == nullptr) return 0;
  constexpr int kMost = 10'000;
  const int number = number_from<int>(text).value_or(0);
  return number > 0 && number <= kMost ? number : 0;
}

bool begins_character(char c) {
  return (static_cast<unsigned char>(c) & 0xC0U) != 0x80U;  // of UTF-8
}

std::size_t width_of(std::string_view text) {
  return static_cast<std::size_t>(std::ranges::count_if(text, begins_character));
}

std::string first_columns(const std::string& text, std::size_t columns) {
  std::size_t end = 0;
  for (std::size_t width = 0; end < text.size(); ++end) {
    if (begins_character(text[end]) && ++width > columns) break;
  }
  return text.substr(0, end);
}

LineParts heavier(const LineParts& parts, int dropped) {
  LineParts kept;
  for (const LinePart& part : parts) {
    if (part.weight > dropped) kept.push_back(part);
  }
  return kept;
}

int heaviest(const LineParts& parts) {
  int weight = std::numeric_limits<int>::min();
  for (const LinePart& part : parts) weight = std::max(weight, part.weight);
  return weight;
}

std::size_t width_of(const LineParts& parts) {
  std::size_t width = parts.empty() ? 0 : kGap * (parts.size() - 1);
  for (const LinePart& part : parts) width += width_of(part.text);
  return width;
}

// The least weight up to which parts have to go for the line to fit; `dropped` where nothing helps.
int needed(const LineParts& parts, std::size_t columns, int dropped) {
  const int most = heaviest(parts);
  int level = dropped;
  while (width_of(heavier(parts, level)) > columns) {
    int next = most;
    for (const LinePart& part : parts) {
      if (part.weight > level) next = std::min(next, part.weight);
    }
    if (next == most) return dropped;
    level = next;
  }
  return level;
}

std::string cut(std::string text, std::size_t columns) {
  if (width_of(text) <= columns) return text;
  return columns == 0 ? "" : first_columns(text, columns - 1) + "…";
}

}  // namespace

TerminalSize terminal_size(int descriptor) {
  winsize told{};
  if (::ioctl(descriptor, TIOCGWINSZ, &told) != 0) told = {};
  TerminalSize size;
  const int columns = told.ws_col != 0 ? told.ws_col : number_of_environment("COLUMNS");
  const int rows = told.ws_row != 0 ? told.ws_row : number_of_environment("LINES");
  if (columns != 0) size.columns = columns;
  if (rows != 0) size.rows = rows;
  return size;
}

std::string joined(const LineParts& parts) {
  std::string line;
  for (const LinePart& part : parts) {
    if (&part != &parts.front()) line.append(kGap, ' ');
    line += part.text;
  }
  return line;
}

std::vector<std::string> fitted(const std::vector<LineParts>& lines, int columns, int& dropped) {
  const auto width = static_cast<std::size_t>(std::max(columns, 0));
  int level = dropped;
  for (const LineParts& parts : lines) level = std::max(level, needed(parts, width, dropped));
  dropped = level;
  std::vector<std::string> texts;
  for (const LineParts& parts : lines) {
    LineParts kept = heavier(parts, std::min(level, heaviest(parts) - 1));
    if (width_of(kept) > width) kept = heavier(parts, heaviest(parts) - 1);
    texts.push_back(cut(printable(joined(kept), kMostOfALine), width));
  }
  return texts;
}

void show_no_progress() {
  progress_is_shown = false;
}

bool shows_progress() {
  return progress_is_shown;
}

LiveLines::LiveLines(std::FILE* stream)
    : stream_(stream),
      is_terminal_(progress_is_shown && ::isatty(::fileno(stream)) != 0),
      size_(terminal_size(::fileno(stream))) {}

LiveLines::~LiveLines() {
  leave();
}

void LiveLines::draw(const std::vector<LineParts>& lines) {
  if (!is_terminal_) return;
  const std::scoped_lock lock(shown_mutex);
  const TerminalSize now = terminal_size(::fileno(stream_));
  std::string text = up_to_first(now.columns);
  if (now != size_) dropped_ = 0;
  size_ = now;
  // One column stays free: a cursor behind the last one stands differently in different terminals.
  std::vector<std::string> fitting = fitted(lines, size_.columns - 1, dropped_);
  const auto room = static_cast<std::size_t>(std::max(size_.rows - 1, 1));
  if (fitting.size() > room) {
    const std::string rest = fmt::format("and {} more", fitting.size() - room + 1);
    fitting.resize(room);
    fitting.back() = cut(rest, static_cast<std::size_t>(std::max(size_.columns - 1, 0)));
  }
  widths_.clear();
  for (const std::string& line : fitting) {
    text += (widths_.empty() ? "" : "\n") + line + "\x1b[K";
    widths_.push_back(width_of(line));
  }
  write(text + "\x1b[J");
  shown = this;
}

void LiveLines::tell(const std::string& line) {
  if (is_terminal_) {
    draw({{{.text = line}}});
  } else if (progress_is_shown) {
    write(line + "\n");
  }
}

void LiveLines::clear() {
  const std::scoped_lock lock(shown_mutex);
  erase();
}

void LiveLines::leave() {
  const std::scoped_lock lock(shown_mutex);
  if (!widths_.empty()) write("\n");
  widths_.clear();
  if (shown == this) shown = nullptr;
}

void without_live_lines(const std::function<void()>& print) {
  const std::scoped_lock lock(shown_mutex);
  if (shown != nullptr) shown->erase();
  print();
}

void LiveLines::erase() {
  if (!widths_.empty()) write(up_to_first(terminal_size(::fileno(stream_)).columns) + "\x1b[J");
  widths_.clear();
}

// From the end of the last line to the start of the first. Terminals that have become narrower have broken
// what was wider than they are now.
std::string LiveLines::up_to_first(int columns) const {
  if (widths_.empty()) return {};
  const auto wide = static_cast<std::size_t>(columns);
  std::size_t rows = 0;
  for (const std::size_t width : widths_) rows += std::max<std::size_t>(1, (width + wide - 1) / wide);
  return rows == 1 ? "\r" : fmt::format("\r\x1b[{}A", rows - 1);
}

void LiveLines::write(const std::string& text) {
  static_cast<void>(std::fwrite(text.data(), 1, text.size(), stream_));
  static_cast<void>(std::fflush(stream_));
}

}  // namespace rookery
