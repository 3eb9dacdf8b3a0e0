#include "models/base/process/terminal.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <pty.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <cstdlib>

namespace rookery {
namespace {

using testing::ElementsAre;

LineParts run_line(const std::string& step) {
  return {{"node_0", 9}, {"stem", 1}, {"step " + step, 8}, {"loss 0.01234", 5}, {"ETA 3 s", 3}};
}

std::vector<std::string> fit(const std::vector<LineParts>& lines, int columns, int dropped = 0) {
  return fitted(lines, columns, dropped);
}

TEST(FittedLines, WhatFitsStaysWhole) {
  EXPECT_THAT(fit({run_line("7/90")}, 80), ElementsAre("node_0  stem  step 7/90  loss 0.01234  ETA 3 s"));
}

TEST(FittedLines, WhatWeighsLeastGoesFirstAndNothingIsCut) {
  const auto at = [](int columns) { return fit({run_line("7/90")}, columns).front(); };
  EXPECT_EQ(at(46), "node_0  stem  step 7/90  loss 0.01234  ETA 3 s");
  EXPECT_EQ(at(45), "node_0  step 7/90  loss 0.01234  ETA 3 s");
  EXPECT_EQ(at(39), "node_0  step 7/90  loss 0.01234");
  EXPECT_EQ(at(30), "node_0  step 7/90");
  EXPECT_EQ(at(16), "node_0");
}

TEST(FittedLines, AllLinesLoseTheSameParts) {
  EXPECT_THAT(fit({run_line("7/90"), run_line("1000007/9000000")}, 46),
              ElementsAre("node_0  step 7/90  loss 0.01234", "node_0  step 1000007/9000000  loss 0.01234"));
}

TEST(FittedLines, ALineThatCannotFitIsCutAndCostsTheOthersNothing) {
  EXPECT_THAT(fit({run_line("7/90"), {{std::string(100, 'x'), 9}}}, 46),
              ElementsAre("node_0  stem  step 7/90  loss 0.01234  ETA 3 s", std::string(45, 'x') + "…"));
  EXPECT_THAT(fit({{{"node_0", 9}}}, 0), ElementsAre(""));
}

TEST(FittedLines, WhatIsLeftOutOnceStaysOut) {
  int dropped = 0;
  fitted({run_line("7/90")}, 45, dropped);
  EXPECT_EQ(dropped, 1);
  EXPECT_THAT(fitted({run_line("7/90")}, 80, dropped),
              ElementsAre("node_0  step 7/90  loss 0.01234  ETA 3 s"));
}

TEST(FittedLines, CharactersCountOnceAndControlCharactersDoNothing) {
  EXPECT_THAT(fit({{{"Zürich", 1}}}, 6), ElementsAre("Zürich"));
  EXPECT_THAT(fit({{{"Zürich", 1}}}, 3), ElementsAre("Zü…"));
  EXPECT_THAT(fit({{{"a\x1b[2J\nb", 1}}}, 80), ElementsAre(R"(a\x1b[2J\x0ab)"));
}

// The two ends of a terminal of this size.
class Terminal {
 public:
  Terminal(unsigned short columns, unsigned short rows) {
    const winsize size{rows, columns, 0, 0};
    if (::openpty(&ours_, &theirs_, nullptr, nullptr, &size) != 0) std::abort();
    stream_ = ::fdopen(theirs_, "w");
  }
  ~Terminal() {
    if (ours_ >= 0) ::close(ours_);
    std::fclose(stream_);
  }
  Terminal(const Terminal&) = delete;
  Terminal& operator=(const Terminal&) = delete;

  void resize(unsigned short columns, unsigned short rows) const {
    const winsize size{rows, columns, 0, 0};
    ::ioctl(ours_, TIOCSWINSZ, &size);
  }
  void hang_up() { ::close(std::exchange(ours_, -1)); }
  std::FILE* stream() const { return stream_; }
  int descriptor() const { return theirs_; }
  // What has been written since it was asked for last; the terminal makes \r\n of \n. It comes in pieces, so
  // that a mark says where it ends.
  std::string shown() const {
    constexpr char kMark = '~';
    std::fputc(kMark, stream_);
    std::fflush(stream_);
    std::string text;
    char next = 0;
    while (::read(ours_, &next, 1) == 1 && next != kMark) text.push_back(next);
    return text;
  }

 private:
  int ours_ = -1, theirs_ = -1;
  std::FILE* stream_ = nullptr;
};

TEST(TerminalSize, ItIsTheTerminalsThenTheEnvironmentsThenUsual) {
  const Terminal terminal(70, 20);
  EXPECT_EQ(terminal_size(terminal.descriptor()), (TerminalSize{70, 20}));
  terminal.resize(50, 10);
  EXPECT_EQ(terminal_size(terminal.descriptor()), (TerminalSize{50, 10}));
  ::setenv("COLUMNS", "66", 1);
  ::setenv("LINES", "nonsense", 1);
  EXPECT_EQ(terminal_size(terminal.descriptor()), (TerminalSize{50, 10}));
  terminal.resize(0, 0);
  EXPECT_EQ(terminal_size(terminal.descriptor()), (TerminalSize{66, 24}));
  ::unsetenv("COLUMNS");
  ::unsetenv("LINES");
  EXPECT_EQ(terminal_size(terminal.descriptor()), (TerminalSize{80, 24}));
}

TEST(LiveLines, TheyAreDrawnOverThemselves) {
  const Terminal terminal(80, 24);
  LiveLines lines(terminal.stream());
  lines.draw({{{"one", 1}}, {{"two", 1}}});
  EXPECT_EQ(terminal.shown(), "one\x1b[K\r\ntwo\x1b[K\x1b[J");
  lines.draw({{{"three", 1}}});
  EXPECT_EQ(terminal.shown(), "\r\x1b[1Athree\x1b[K\x1b[J");
  lines.clear();
  EXPECT_EQ(terminal.shown(), "\r\x1b[J");
  lines.draw({{{"four", 1}}});
  EXPECT_EQ(terminal.shown(), "four\x1b[K\x1b[J");
  lines.leave();
  EXPECT_EQ(terminal.shown(), "\r\n");
}

TEST(LiveLines, OthersTextComesInTheirPlace) {
  const Terminal terminal(80, 24);
  LiveLines lines(terminal.stream());
  lines.draw({{{"one", 1}}});
  terminal.shown();
  without_live_lines([&] {
    std::fputs("text\n", terminal.stream());
    std::fflush(terminal.stream());
  });
  EXPECT_EQ(terminal.shown(), "\r\x1b[Jtext\r\n");
  lines.draw({{{"one", 1}}});
  EXPECT_EQ(terminal.shown(), "one\x1b[K\x1b[J");
}

TEST(LiveLines, WhatANarrowerTerminalHasBrokenIsTakenAway) {
  const Terminal terminal(80, 24);
  LiveLines lines(terminal.stream());
  lines.draw({{{std::string(70, 'a'), 1}}, {{std::string(30, 'b'), 1}}});
  terminal.shown();
  terminal.resize(30, 24);  // 70 columns are three rows now, 30 are one
  lines.draw({{{"a", 1}}, {{"b", 1}}});
  EXPECT_EQ(terminal.shown(), "\r\x1b[3Aa\x1b[K\r\nb\x1b[K\x1b[J");
}

TEST(LiveLines, MoreThanTheTerminalHasRowsAreCounted) {
  const Terminal terminal(80, 4);
  LiveLines lines(terminal.stream());
  lines.draw({{{"a", 1}}, {{"b", 1}}, {{"c", 1}}, {{"d", 1}}, {{"e", 1}}});
  EXPECT_EQ(terminal.shown(), "a\x1b[K\r\nb\x1b[K\r\nand 3 more\x1b[K\x1b[J");
}

TEST(LiveLines, ATerminalThatIsGoneIsNoError) {
  Terminal terminal(80, 24);
  LiveLines lines(terminal.stream());
  lines.draw({{{"one", 1}}});
  terminal.hang_up();
  lines.draw({{{"two", 1}}});
  lines.leave();
}

TEST(LiveLines, WhatIsNoTerminalShowsNothing) {
  std::FILE* file = std::tmpfile();
  {
    LiveLines lines(file);
    EXPECT_FALSE(lines.is_terminal());
    lines.draw({{{"one", 1}}});
  }
  EXPECT_EQ(std::ftell(file), 0);
  std::fclose(file);
}

}  // namespace
}  // namespace rookery
