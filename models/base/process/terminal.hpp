// Lines at the bottom of a terminal that are drawn again and again, such as a run's progress.
#pragma once

#include <cstddef>
#include <cstdio>
#include <functional>
#include <string>
#include <vector>

namespace rookery {

struct TerminalSize {
  int columns = 80;
  int rows = 24;
  bool operator==(const TerminalSize&) const = default;
};

// The size of the terminal behind a descriptor, as it is now; where it does not tell, $COLUMNS and $LINES;
// else 80 x 24.
TerminalSize terminal_size(int descriptor);

// A part of a line. Where a line is too long, parts of low weight are left out.
struct LinePart {
  std::string text;
  int weight = 1;  // above 0
};
using LineParts = std::vector<LinePart>;

// All parts, two blanks apart.
std::string joined(const LineParts& parts);

// The lines in at most so many columns each. Parts are left out by weight, the lightest first, and of all
// lines alike, so that what remains stands in columns; a line of which even the heaviest part is too long is
// cut, ends with "…", and does not cost the others anything. `dropped`: parts up to this weight are left out
// in any case; becomes the weight up to which they were. Characters count as one column each, control
// characters become '?'.
std::vector<std::string> fitted(const std::vector<LineParts>& lines, int columns, int& dropped);

// From here on nothing shows progress (--quiet): before the first LiveLines is made, and before there are
// threads.
void show_no_progress();
bool shows_progress();

// The lines that a program keeps at the bottom of its terminal, the cursor at the end of the last. They
// follow the terminal's size: it is asked for at every drawing, once. A terminal that becomes narrower
// between the question and the drawing keeps what stood there before: nothing tells a program in which order
// a terminal does these. What is written to a terminal is decoration, so that a terminal that is gone is no
// error. Any thread; a program has one object that shows something at a time.
class LiveLines {
 public:
  // A stream that is no terminal shows nothing, nor does any after show_no_progress(). It outlives the
  // object.
  explicit LiveLines(std::FILE* stream);
  // Leaves what is drawn, and ends its last line.
  ~LiveLines();
  LiveLines(const LiveLines&) = delete;
  LiveLines& operator=(const LiveLines&) = delete;

  bool is_terminal() const { return is_terminal_; }
  // In place of what was drawn before. Lines that the terminal has no rows for are counted in one more.
  void draw(const std::vector<LineParts>& lines);
  // The same with one line; what is no terminal gets it as a line that stays, if it is to show progress.
  void tell(const std::string& line);
  // Takes the lines away.
  void clear();
  // Leaves them as they are: what is printed or drawn next stands below.
  void leave();

 private:
  friend void without_live_lines(const std::function<void()>& print);
  void erase();
  std::string up_to_first(int columns) const;
  void write(const std::string& text);

  std::FILE* const stream_;
  const bool is_terminal_;
  TerminalSize size_;                // at the last drawing
  std::vector<std::size_t> widths_;  // of the lines that stand there
  int dropped_ = 0;                  // so that lines do not change their form with every digit
};

// Takes the lines that stand on the terminal away before `print` writes something else there. They come again
// with their next drawing. Any thread; `print` uses no LiveLines.
void without_live_lines(const std::function<void()>& print);

}  // namespace rookery
