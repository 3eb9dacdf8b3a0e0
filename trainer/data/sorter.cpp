// "sorter": sequences of digits and, behind each, the same digits sorted, as in minGPT's demonstration
// (https://github.com/karpathy/minGPT). No sequence is there twice, so that those that validate were never
// trained on.

#include <algorithm>
#include <numeric>
#include <vector>

#include "models/base/error.hpp"
#include "models/base/libraries/format.hpp"
#include "trainer/data/formats.hpp"
#include "trainer/data/generated.hpp"

namespace rookery {
namespace {

constexpr std::int64_t kMaxSequences = std::int64_t{1} << 31;

struct SorterOptions {
  std::int64_t length;  // of a sequence
  std::int64_t digits;  // kinds of them
  std::int64_t samples;
};

// A number that has no divisor with `count` in common and is about 0.618 of it, whose multiples are spread
// evenly.
std::int64_t stride_through(std::int64_t count) {
  std::int64_t stride = count * 618 / 1000;
  while (std::gcd(stride, count) != 1) ++stride;
  return stride;
}

class Sorter : public GeneratedDataset {
 public:
  // `sequences`: how many there are.
  Sorter(const SorterOptions& options, std::int64_t sequences)
      : GeneratedDataset(options.samples, types(options)),
        options_(options),
        sequences_(sequences),
        stride_(stride_through(sequences)) {}

  bool is_continued() const override { return true; }

 private:
  static ValueTypes types(const SorterOptions& options) {
    const TensorType tokens{DType::kI64, {kBatch, 2 * options.length - 1}};
    return {{"input", tokens}, {kLabels, tokens}};
  }

  // The digits, then the same sorted.
  std::vector<std::int64_t> tokens(std::int64_t id) const {
    std::vector<std::int64_t> both;
    std::int64_t number = id * stride_ % sequences_;
    for (std::int64_t i = 0; i < options_.length; ++i, number /= options_.digits)
      both.push_back(number % options_.digits);
    std::vector<std::int64_t> sorted = both;
    std::ranges::sort(sorted);
    both.insert(both.end(), sorted.begin(), sorted.end());
    return both;
  }

  // The labels are the tokens that follow; nothing is asked before the last digit.
  void draw(std::int64_t id, const std::string& name, TensorView into) const override {
    const std::vector<std::int64_t> both = tokens(id);
    const auto to = into.as<std::int64_t>();
    const bool follows = name == kLabels;
    std::copy_n(both.begin() + (follows ? 1 : 0), to.size(), to.begin());
    if (follows) std::fill_n(to.begin(), options_.length - 1, kIgnoredLabel);
  }

  SorterOptions options_;
  std::int64_t sequences_;
  std::int64_t stride_;
};

std::unique_ptr<Dataset> open_sorter(NamedOptions& options, const DataPlace& /*place*/) {
  SorterOptions sorter{.length = options.integer("length", 6, 1, 30),
                       .digits = options.integer("digits", 3, 2, 1000),
                       .samples = 0};
  std::int64_t sequences = 1;
  for (std::int64_t i = 0; i < sorter.length; ++i) {
    sequences *= sorter.digits;
    if (sequences > kMaxSequences) {
      throw ConfigError(fmt::format("{} of {} digits are more than {} sequences", sorter.length,
                                    sorter.digits, kMaxSequences));
    }
  }
  constexpr std::int64_t kUsual = 20000;
  sorter.samples = options.integer("samples", std::min(sequences, kUsual), 1, sequences);
  options.expect_none_left();
  return std::make_unique<Sorter>(sorter, sequences);
}

}  // namespace

DataFormat sorter_format() {
  return {.name = "sorter",
          .pattern = "sorter([?].*)?$",
          .help =
              "`input`, `labels` i64[2 length - 1]: digits and the same digits sorted behind them;"
              " the labels are the tokens that follow, -100 where nothing is asked. No sequence is"
              " there twice. For `gpt`. Options: `length=6`, `digits=3`, `samples` (all there are,"
              " but at most 20000)",
          .open = open_sorter};
}

}  // namespace rookery
