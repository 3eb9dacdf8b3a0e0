// The display that people see of one or several nodes while they train: on a terminal a line for each that is
// drawn anew, and below several the course of loss and accuracy; elsewhere lines that stay. With --quiet
// nothing but what is printed.
#pragma once

#include <cstdio>
#include <string>
#include <vector>

#include "models/base/process/terminal.hpp"
#include "node/progress_pace.hpp"
#include "node/provider_events.hpp"
#include "node/sparkline.hpp"

namespace rookery {

// On standard output. That it cannot be written to is no reason to end a run: whoever ends the program looks
// at std::ferror(stdout). One thread at a time.
class RunDisplay {
 public:
  explicit RunDisplay(const std::vector<std::string>& nodes);
  void add(const std::string& node);  // below the others

  // The newest of the event's node, which is one of `nodes`.
  void show(const ProviderEvent& event, PaceTime now);
  // A text that stays, above the lines that are drawn anew.
  void print(std::FILE* stream, const std::string& text);
  // To be called once in a while: follows the terminal's size, and says that a run goes on in which nothing
  // new has come for long.
  void tick(PaceTime now);
  // The lines stay as they are; what is printed next stands below.
  void finish();

 private:
  struct Row {
    ProviderEvent newest;
    LinePace pace;
    bool ended = false;
  };

  bool has_curves() const { return rows_.size() > 1; }
  void note_course(const ProviderEvent& event);
  LineParts course() const;
  void print_line(Row& row, PaceTime now);
  void draw(PaceTime now);

  std::vector<Row> rows_;
  std::string leaf_;  // the first Leaf heard of, whose losses are drawn
  Sparkline losses_;
  Sparkline accuracies_;
  LiveLines lines_{stdout};
  PaceTime drawn_{};
};

}  // namespace rookery
