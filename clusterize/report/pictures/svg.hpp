// A small writer of SVG 1.1 pictures: shapes and text on a light ground of their own, so that they can be
// read on a dark page, too. Lengths are in pixels, y grows downwards; numbers are rounded to tenths.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace rookery {

constexpr double kMargin = 24;  // of a picture, at its sides

struct SvgShape {
  std::string_view fill = "none";
  std::string_view stroke = "none";
  double stroke_width = 1;
  double radius = 0;  // of a rectangle's corners
  bool dashed = false;
  std::string tip = {};  // shown by browsers under the pointer
};

enum class SvgAlign : std::uint8_t { kStart, kMiddle, kEnd };

struct SvgText {
  double size = 12;
  std::string_view color = "#1f2933";
  SvgAlign align = SvgAlign::kStart;
  bool bold = false;
};

class Svg {
 public:
  void rectangle(double x, double y, double width, double height, const SvgShape& shape);
  // Through these points; with an arrow's head at the end.
  void arrow(std::span<const std::pair<double, double>> points, std::string_view color, double width);
  // Through these points; fewer than two are nothing.
  void path(std::span<const std::pair<double, double>> points, std::string_view color, double width);
  void line(double x1, double y1, double x2, double y2, std::string_view color, double width = 1);
  // y is that of the base line. Any text: it is escaped, and what XML cannot hold becomes "?".
  void text(double x, double y, std::string_view text, const SvgText& style = {});

  // About what the text takes; wide fonts take less than this.
  static double text_width(std::string_view text, double size, bool bold = false);
  // Cut with "…" where it is wider.
  static std::string shortened(std::string_view text, double width, double size, bool bold = false);
  // Lines no wider than this, broken at spaces.
  static std::vector<std::string> wrapped(std::string_view text, double width, double size,
                                          bool bold = false);

  // The whole file. `title` is for those who cannot see it.
  std::string document(double width, double height, std::string_view title) const;

 private:
  std::string body_;
};

// 1, 2 or 5 times a power of ten: from one tick of an axis to the next, so that it has at most `most` of
// them, about.
double axis_tick(double whole, int most);

// As XML and HTML have it between tags and quotation marks; control characters become "?".
std::string escaped_markup(std::string_view text);

// Colors of the pictures.
namespace svg_color {
constexpr std::string_view kGround = "#fbfbf8";
constexpr std::string_view kInk = "#1f2933";
constexpr std::string_view kFaint = "#5f6b76";
constexpr std::string_view kLine = "#c9ced3";
constexpr std::string_view kPanel = "#eef1f4";
constexpr std::string_view kWhite = "#ffffff";
constexpr std::string_view kBlue = "#3b7dd8";
constexpr std::string_view kOrange = "#e08a2e";
constexpr std::string_view kGreen = "#4c9f70";
constexpr std::string_view kPurple = "#8462b8";
constexpr std::string_view kTeal = "#8fa9b5";
constexpr std::string_view kPink = "#c85a8a";
constexpr std::string_view kRed = "#d1372f";
}  // namespace svg_color

}  // namespace rookery
