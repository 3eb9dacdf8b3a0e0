// Curves of a run drawn: what changes from step to step.
#pragma once

#include <span>
#include <string>
#include <utility>
#include <vector>

namespace rookery {

struct Curve {
  std::string name;
  std::vector<std::pair<double, double>>
      points;  // (step, value), steps ascending; no value is NaN or infinite
};

// An SVG file of curves that share their axes; a function of its arguments alone. Of a curve of more points
// than the picture has columns, each column shows its least and largest. Without a point it says so.
std::string curve_picture(const std::string& title, std::span<const Curve> curves);

}  // namespace rookery
