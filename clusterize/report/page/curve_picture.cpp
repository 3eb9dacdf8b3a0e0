#include "clusterize/report/page/curve_picture.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include "clusterize/report/pictures/svg.hpp"
#include "models/base/libraries/format.hpp"

namespace rookery {
namespace {

constexpr double kCurveWidth = 560;
constexpr double kCurveHeight = 300;
constexpr double kPlotLeft = 64;  // of the plot, right of the numbers
constexpr double kPlotTop = 56;   // below title and names
constexpr double kPlotRight = kCurveWidth - kMargin;
constexpr double kPlotBottom = kCurveHeight - 36;
constexpr std::array<std::string_view, 6> kCurveColors{svg_color::kBlue,  svg_color::kOrange,
                                                       svg_color::kGreen, svg_color::kPurple,
                                                       svg_color::kPink,  svg_color::kTeal};

// What an axis shows.
struct Range {
  double low = std::numeric_limits<double>::infinity();
  double high = -std::numeric_limits<double>::infinity();

  void include(double value) {
    low = std::min(low, value);
    high = std::max(high, value);
  }
  void widen_where_empty() {
    if (high > low) return;
    const double half = low == 0 ? 0.5 : std::abs(low) / 2;
    low -= half;
    high += half;
  }
  double share(double value) const { return (value - low) / (high - low); }
};

class CurvePicture {
 public:
  explicit CurvePicture(std::span<const Curve> curves) : curves_(curves) {
    for (const Curve& curve : curves) {
      for (const auto& [step, value] : curve.points) {
        steps_.include(step);
        values_.include(value);
      }
    }
  }

  std::string draw(const std::string& title) {
    svg_.text(kMargin, 26, title, {.size = 14, .bold = true});
    if (steps_.low > steps_.high) {
      svg_.text(kMargin, kPlotTop, "no values yet", {.color = svg_color::kFaint});
    } else {
      steps_.widen_where_empty();
      values_.widen_where_empty();
      axes();
      double x = kPlotLeft;
      for (std::size_t i = 0; i < curves_.size(); ++i) {
        const std::string_view color = kCurveColors.at(i % kCurveColors.size());
        draw_curve(curves_[i], color);
        x = legend(curves_[i], color, x);
      }
    }
    return svg_.document(kCurveWidth, kCurveHeight, title);
  }

 private:
  double x_of(double step) const { return kPlotLeft + steps_.share(step) * (kPlotRight - kPlotLeft); }
  double y_of(double value) const { return kPlotBottom - values_.share(value) * (kPlotBottom - kPlotTop); }

  void axes() {
    const double value_tick = axis_tick(values_.high - values_.low, 6);
    for (double v = std::ceil(values_.low / value_tick) * value_tick; v <= values_.high; v += value_tick) {
      svg_.line(kPlotLeft, y_of(v), kPlotRight, y_of(v), svg_color::kLine);
      const double shown = std::abs(v) < value_tick / 2 ? 0 : v;
      svg_.text(kPlotLeft - 6, y_of(v) + 4, fmt::format("{:.4g}", shown),
                {.size = 11, .color = svg_color::kFaint, .align = SvgAlign::kEnd});
    }
    const double step_tick = std::max(1.0, axis_tick(steps_.high - steps_.low, 6));
    for (double s = std::ceil(steps_.low / step_tick) * step_tick; s <= steps_.high; s += step_tick)
      svg_.text(x_of(s), kPlotBottom + 16, fmt::format("{:.0f}", s),
                {.size = 11, .color = svg_color::kFaint, .align = SvgAlign::kMiddle});
    svg_.line(kPlotLeft, kPlotBottom, kPlotRight, kPlotBottom, svg_color::kFaint);
    svg_.text(kPlotRight, kCurveHeight - 6, "step",
              {.size = 11, .color = svg_color::kFaint, .align = SvgAlign::kEnd});
  }

  // Column by column: the least and the largest of each, where the values between cannot be told apart.
  void draw_curve(const Curve& curve, std::string_view color) {
    std::vector<std::pair<double, double>> line;
    for (auto next = curve.points.begin(); next != curve.points.end();) {
      const double column = std::floor(x_of(next->first));
      const auto end = std::find_if(next, curve.points.end(), [&](const auto& point) {
        return std::floor(x_of(point.first)) > column;
      });
      const auto [least, most] =
          std::minmax_element(next, end, [](const auto& a, const auto& b) { return a.second < b.second; });
      for (const auto& extreme : {std::min(least, most), std::max(least, most)}) {
        line.emplace_back(x_of(extreme->first), y_of(extreme->second));
        if (least == most) break;
      }
      next = end;
    }
    if (line.size() == 1)
      svg_.rectangle(line[0].first - 2, line[0].second - 2, 4, 4, {.fill = color, .radius = 2});
    svg_.path(line, color, 1.6);
  }

  double legend(const Curve& curve, std::string_view color, double x) {
    const std::string name = Svg::shortened(curve.name, 200, 11);
    svg_.line(x, 40, x + 14, 40, color, 3);
    svg_.text(x + 18, 44, name, {.size = 11});
    return x + 30 + Svg::text_width(name, 11);
  }

  std::span<const Curve> curves_;
  Range steps_, values_;
  Svg svg_;
};

}  // namespace

std::string curve_picture(const std::string& title, std::span<const Curve> curves) {
  return CurvePicture(curves).draw(title);
}

}  // namespace rookery
