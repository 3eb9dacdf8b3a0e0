// "masked_words": pairs of sentences for the pre-training of BERT (arXiv 1810.04805), in a language made up
// for it: every word has a few that may follow it. A masked word is known from its neighbours, and a next
// sentence goes on where the one before it ended.
#include <algorithm>
#include <vector>

#include "trainer/data/formats.hpp"
#include "trainer/data/generated.hpp"

namespace rookery {
namespace {

enum Token : std::int64_t { kFilling, kFirst, kEnd, kMask, kWords };  // words are counted from kWords on
constexpr float kMaskedShare = 0.15F;

struct LanguageOptions {
  std::int64_t samples;
  std::int64_t length;    // of both sentences, in tokens
  std::int64_t words;     // of the language
  std::int64_t branches;  // words that may follow one
  std::uint64_t seed;
};

struct Pair {
  std::vector<std::int64_t> tokens, types, attended, labels;
  std::int64_t is_random = 0;  // is the second sentence not the next one
};

class MaskedWords : public GeneratedDataset {
 public:
  explicit MaskedWords(const LanguageOptions& options)
      : GeneratedDataset(options.samples, types(options.length)),
        options_(options),
        grammar_(rng_key(options.seed, "masked_words grammar")),
        text_(rng_key(options.seed, "masked_words text")) {}

 private:
  static ValueTypes types(std::int64_t length) {
    const TensorType tokens{DType::kI64, {kBatch, length}};
    return {{"input_ids", tokens},
            {"token_type_ids", tokens},
            {"attention_mask", tokens},
            {kLabels, tokens},
            {"next_sentence_label", {DType::kI64, {kBatch}}}};
  }

  std::uint32_t any_word(CounterRng& rng) const {
    return rng.next_below(static_cast<std::uint32_t>(options_.words));
  }

  std::uint32_t word_after(std::uint32_t word, CounterRng& rng) const {
    const std::uint32_t branch = rng.next_below(static_cast<std::uint32_t>(options_.branches));
    return philox({word, branch, 0, 0}, grammar_)[0] % static_cast<std::uint32_t>(options_.words);
  }

  // Between a half of the length and all of it, filled up behind.
  Pair draw_pair(std::int64_t id) const {
    CounterRng rng(text_, static_cast<std::uint64_t>(id));
    const auto room = static_cast<std::uint32_t>(options_.length - 3);  // for words
    const std::uint32_t words = (room + 1) / 2 + rng.next_below(room / 2 + 1);
    const std::uint32_t in_first = 1 + rng.next_below(words - 1);
    Pair pair{.is_random = rng.next_below(2)};
    std::uint32_t word = any_word(rng);
    const auto append = [&](std::int64_t token, std::int64_t type) {
      pair.tokens.push_back(token);
      pair.types.push_back(type);
    };
    append(kFirst, 0);
    for (std::uint32_t i = 0; i < words; ++i) {
      if (i == in_first) {
        append(kEnd, 0);
        if (pair.is_random != 0) word = any_word(rng);
      }
      append(kWords + word, i < in_first ? 0 : 1);
      word = word_after(word, rng);
    }
    append(kEnd, 1);
    pair.attended.assign(pair.tokens.size(), 1);
    mask(pair, rng);
    for (auto* part : {&pair.tokens, &pair.types, &pair.attended})
      part->resize(static_cast<std::size_t>(options_.length), kFilling);
    pair.labels.resize(options_.length, kIgnoredLabel);
    return pair;
  }

  // Among the words that are asked for eight tenths are masked, one is another word and one stays.
  void mask(Pair& pair, CounterRng& rng) const {
    for (std::int64_t& token : pair.tokens) {
      const bool is_asked = token >= kWords && rng.next_float() < kMaskedShare;
      pair.labels.push_back(is_asked ? token : kIgnoredLabel);
      if (!is_asked) continue;
      const std::uint32_t how = rng.next_below(10);
      if (how < 8) token = kMask;
      if (how == 8) token = kWords + any_word(rng);
    }
  }

  void draw(std::int64_t id, const std::string& name, TensorView into) const override {
    const Pair pair = draw_pair(id);
    const auto to = into.as<std::int64_t>();
    if (name == "input_ids") std::ranges::copy(pair.tokens, to.begin());
    if (name == "token_type_ids") std::ranges::copy(pair.types, to.begin());
    if (name == "attention_mask") std::ranges::copy(pair.attended, to.begin());
    if (name == kLabels) std::ranges::copy(pair.labels, to.begin());
    if (name == "next_sentence_label") to[0] = pair.is_random;
  }

  LanguageOptions options_;
  RngKey grammar_, text_;
};

std::unique_ptr<Dataset> open_masked_words(NamedOptions& options, const DataPlace& /*place*/) {
  const LanguageOptions language{
      .samples = options.integer("samples", 10000, 1, 1 << 24),
      .length = options.integer("length", 32, 7, 65536),
      .words = options.integer("words", 252, 2, 1 << 22),
      .branches = options.integer("branches", 3, 1, 1 << 16),
      .seed = static_cast<std::uint64_t>(options.integer("seed", 0, 0, 1LL << 53))};
  options.expect_none_left();
  return std::make_unique<MaskedWords>(language);
}

}  // namespace

DataFormat masked_words_format() {
  return {.name = "masked_words",
          .pattern = "masked_words([?].*)?$",
          .help =
              "`input_ids`, `token_type_ids`, `attention_mask`, `labels` i64[length], "
              "`next_sentence_label`: pairs of sentences of a made-up language of words + 4 "
              "tokens, some words masked, with labels of -100 but for these. For `bert`. Options: "
              "`samples=10000`, `length=32`, `words=252`, `branches=3` (words that may follow "
              "one), `seed=0`",
          .open = open_masked_words};
}

}  // namespace rookery
