#include "clusterize/report/pictures/svg.hpp"

#include <gmock/gmock.h>

#include <array>

namespace rookery {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;

TEST(Svg, EscapesWhatTextsHold) {
  Svg svg;
  svg.text(1, 2, "a<b> & \"c\"\x01");
  svg.rectangle(0, 0, 1, 1, {.tip = "<&"});
  const std::string file = svg.document(10, 20, "</title>");
  EXPECT_THAT(file, HasSubstr(">a&lt;b&gt; &amp; &quot;c&quot;?</text>"));
  EXPECT_THAT(file, HasSubstr("<title>&lt;&amp;</title></rect>"));
  EXPECT_THAT(file, HasSubstr("<title>&lt;/title&gt;</title>"));
  EXPECT_THAT(file, HasSubstr(R"(viewBox="0 0 10 20")"));
}

TEST(Svg, RoundsNumbersToTenths) {
  Svg svg;
  svg.line(1.0 / 3, -0.01, 2, 1e3, svg_color::kInk);
  EXPECT_THAT(svg.document(1, 1, ""), HasSubstr(R"(x1="0.3" y1="0" x2="2" y2="1000")"));
}

TEST(Svg, ShortensTextsAtWholeCharacters) {
  EXPECT_EQ(Svg::shortened("short", 100, 10), "short");
  const std::string cut = Svg::shortened("ä→ö→ü→ä→ö→ü", 40, 10);
  EXPECT_LE(Svg::text_width(cut, 10), 40);
  EXPECT_THAT(cut, testing::EndsWith("…"));
  EXPECT_THAT(cut, testing::StartsWith("ä→ö"));
  EXPECT_EQ(Svg::text_width("ä→", 10), Svg::text_width("ab", 10));
}

TEST(Svg, WrapsTextsAtSpaces) {
  EXPECT_THAT(Svg::wrapped("one two three", Svg::text_width("one two", 10), 10),
              ElementsAre("one two", "three"));
  EXPECT_THAT(Svg::wrapped("", 50, 10), ElementsAre(""));
  for (const std::string& line : Svg::wrapped("a word that is verymuchlongerthantheline", 60, 10))
    EXPECT_LE(Svg::text_width(line, 10), 60);
}

TEST(Svg, AnArrowEndsInItsLastPoint) {
  Svg svg;
  const std::array<std::pair<double, double>, 3> points{std::pair(0, 0), std::pair(0, 5), std::pair(9, 5)};
  svg.arrow(points, svg_color::kInk, 1);
  const std::string file = svg.document(10, 10, "");
  EXPECT_THAT(file, HasSubstr("M0 0 L0 5 L9 5"));
  EXPECT_THAT(file, HasSubstr("M9 5 L3 8 L3 2 Z"));
  EXPECT_THAT(file, Not(HasSubstr("nan")));
}

}  // namespace
}  // namespace rookery
