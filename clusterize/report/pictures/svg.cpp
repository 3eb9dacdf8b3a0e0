#include "clusterize/report/pictures/svg.hpp"

#include <algorithm>
#include <cmath>

#include "models/base/libraries/format.hpp"

namespace rookery {
namespace {

// Without a trailing ".0" and without "-0".
std::string number(double value) {
  const double tenths = std::round(value * 10);
  return fmt::format("{}", (tenths == 0 ? 0 : tenths) / 10);
}

bool continues_character(char c) {  // UTF-8
  return (static_cast<unsigned char>(c) & 0xC0U) == 0x80U;
}

}  // namespace

double axis_tick(double whole, int most) {
  const double least = whole / most;
  const double power = std::pow(10, std::floor(std::log10(least)));
  for (const double factor : {1.0, 2.0, 5.0}) {
    if (factor * power >= least) return factor * power;
  }
  return 10 * power;
}

std::string escaped_markup(std::string_view text) {
  std::string safe;
  for (const char c : text) {
    switch (c) {
      case '<':
        safe += "&lt;";
        break;
      case '>':
        safe += "&gt;";
        break;
      case '&':
        safe += "&amp;";
        break;
      case '"':
        safe += "&quot;";
        break;
      default:
        safe += static_cast<unsigned char>(c) < 0x20 || c == 0x7f ? '?' : c;
    }
  }
  return safe;
}

void Svg::rectangle(double x, double y, double width, double height, const SvgShape& shape) {
  body_ += fmt::format(R"(<rect x="{}" y="{}" width="{}" height="{}")", number(x), number(y), number(width),
                       number(height));
  if (shape.radius > 0) body_ += fmt::format(R"( rx="{}")", number(shape.radius));
  body_ += fmt::format(R"( fill="{}")", shape.fill);
  if (shape.stroke != "none") {
    body_ += fmt::format(R"( stroke="{}" stroke-width="{}")", shape.stroke, number(shape.stroke_width));
    if (shape.dashed) body_ += R"( stroke-dasharray="4 3")";
  }
  body_ += shape.tip.empty() ? "/>\n" : fmt::format("><title>{}</title></rect>\n", escaped_markup(shape.tip));
}

void Svg::arrow(std::span<const std::pair<double, double>> points, std::string_view color, double width) {
  path(points, color, width);
  const auto [x, y] = points.back();
  const auto [from_x, from_y] = points[points.size() - 2];
  const double length = std::hypot(x - from_x, y - from_y);
  const double along_x = (x - from_x) / length;
  const double along_y = (y - from_y) / length;
  const double head = 4 + 2 * width;
  const double half = head / 2;
  body_ +=
      fmt::format(R"(<path d="M{} {} L{} {} L{} {} Z" fill="{}"/>)"
                  "\n",
                  number(x), number(y), number(x - head * along_x - half * along_y),
                  number(y - head * along_y + half * along_x), number(x - head * along_x + half * along_y),
                  number(y - head * along_y - half * along_x), color);
}

void Svg::path(std::span<const std::pair<double, double>> points, std::string_view color, double width) {
  if (points.size() < 2) return;
  std::string path;
  for (const auto& [x, y] : points)
    path += fmt::format("{}{} {}", path.empty() ? "M" : " L", number(x), number(y));
  body_ += fmt::format(R"(<path d="{}" fill="none" stroke="{}" stroke-width="{}"/>)"
                       "\n",
                       path, color, number(width));
}

void Svg::line(double x1, double y1, double x2, double y2, std::string_view color, double width) {
  body_ += fmt::format(R"(<line x1="{}" y1="{}" x2="{}" y2="{}" stroke="{}" stroke-width="{}"/>)"
                       "\n",
                       number(x1), number(y1), number(x2), number(y2), color, number(width));
}

void Svg::text(double x, double y, std::string_view text, const SvgText& style) {
  body_ += fmt::format(R"(<text x="{}" y="{}" font-size="{}" fill="{}")", number(x), number(y),
                       number(style.size), style.color);
  if (style.align != SvgAlign::kStart)
    body_ += fmt::format(R"( text-anchor="{}")", style.align == SvgAlign::kMiddle ? "middle" : "end");
  if (style.bold) body_ += R"( font-weight="bold")";
  body_ += fmt::format(">{}</text>\n", escaped_markup(text));
}

double Svg::text_width(std::string_view text, double size, bool bold) {
  double characters = 0;
  for (const char c : text) {
    if (!continues_character(c)) ++characters;
  }
  return characters * size * (bold ? 0.67 : 0.59);
}

std::string Svg::shortened(std::string_view text, double width, double size, bool bold) {
  if (text_width(text, size, bold) <= width) return std::string(text);
  std::string cut(text);
  while (!cut.empty() && text_width(cut + "…", size, bold) > width) {
    while (cut.size() > 1 && continues_character(cut.back())) cut.pop_back();
    cut.pop_back();
  }
  return cut + "…";
}

std::vector<std::string> Svg::wrapped(std::string_view text, double width, double size, bool bold) {
  std::vector<std::string> lines(1);
  while (!text.empty()) {
    const std::size_t space = std::min(text.find(' '), text.size());
    const std::string word(text.substr(0, space));
    text.remove_prefix(std::min(space + 1, text.size()));
    const std::string longer = lines.back().empty() ? word : lines.back() + " " + word;
    if (lines.back().empty() || text_width(longer, size, bold) <= width) {
      lines.back() = longer;
    } else {
      lines.push_back(word);
    }
  }
  for (std::string& line : lines) line = shortened(line, width, size, bold);
  return lines;
}

std::string Svg::document(double width, double height, std::string_view title) const {
  return fmt::format(
      R"(<svg xmlns="http://www.w3.org/2000/svg" width="{0}" height="{1}" viewBox="0 0 {0} {1}" role="img" )"
      R"(font-family="Verdana, 'DejaVu Sans', sans-serif">)"
      "\n<title>{2}</title>\n"
      R"(<rect width="{0}" height="{1}" rx="8" fill="{3}"/>)"
      "\n{4}</svg>\n",
      number(width), number(height), escaped_markup(title), svg_color::kGround, body_);
}

}  // namespace rookery
