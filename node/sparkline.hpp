// A sparkline: the course of a figure over a run in a few columns of a terminal: "█▆▃▂▁▁".
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

namespace rookery {

// Takes the same memory however long the run is: what it keeps are means of as many values as there are by
// then.
class Sparkline {
 public:
  // What is infinite or no number is left out.
  void add(double value);

  bool empty() const { return !first_; }
  double first() const { return *first_; }  // of what was added
  double last() const { return last_; }

  // At most so many characters of UTF-8, one a column; the lowest and the highest of what is drawn have the
  // lowest and the highest block.
  std::string text(std::size_t columns) const;

 private:
  std::vector<double> levels(std::size_t columns) const;

  std::optional<double> first_;
  double last_ = 0;
  std::vector<double> means_;  // of `together_` values each
  std::size_t together_ = 1;
  double sum_ = 0;  // of `summed_` values that are no mean yet
  std::size_t summed_ = 0;
};

}  // namespace rookery
