// Data sets that are computed.
#include "trainer/data/generated.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <numeric>
#include <set>
#include <vector>

#include "models/base/error.hpp"
#include "tests/support/gathered.hpp"

namespace rookery {
namespace {

constexpr std::int64_t kIgnored = -100;

std::unique_ptr<Dataset> open(const std::string& name) {
  return open_dataset(name, "/nowhere");
}

template <typename T>
std::vector<T> sample(const Dataset& data, const std::string& name, std::int64_t id) {
  return gathered<T>(data, name, {id});
}

using Tokens = std::vector<std::int64_t>;

TEST(Sorter, AsksForTheSortedDigitsBehindThem) {
  const auto data = open("sorter");
  EXPECT_EQ(data->size(), 729);
  EXPECT_TRUE(data->is_continued());
  EXPECT_EQ(data->bytes(), 0);
  std::set<Tokens> seen;
  for (std::int64_t id = 0; id < data->size(); ++id) {
    const Tokens input = sample<std::int64_t>(*data, "input", id);
    const Tokens labels = sample<std::int64_t>(*data, "labels", id);
    Tokens digits(input.begin(), input.begin() + 6);
    EXPECT_TRUE(seen.insert(digits).second) << id;
    std::ranges::sort(digits);
    EXPECT_EQ(Tokens(labels.begin(), labels.begin() + 5), Tokens(5, kIgnored));
    EXPECT_EQ(Tokens(labels.begin() + 5, labels.end()), digits);
    EXPECT_EQ(Tokens(input.begin() + 6, input.end()), Tokens(digits.begin(), digits.end() - 1));
    EXPECT_LE(digits.back(), 2);
  }
}

TEST(Sorter, DrawsSomeOfManyWithoutRepeating) {
  const auto data = open("sorter?length=9&digits=10&samples=3000");
  ASSERT_EQ(data->size(), 3000);
  std::set<Tokens> seen;
  std::vector<int> first(10);
  for (std::int64_t id = 0; id < data->size(); ++id) {
    const Tokens input = sample<std::int64_t>(*data, "input", id);
    seen.insert(Tokens(input.begin(), input.begin() + 9));
    ++first[input[8]];
  }
  EXPECT_EQ(seen.size(), 3000U);
  for (const int count : first) EXPECT_NEAR(count, 300, 60);
  EXPECT_THROW(open("sorter?length=9&digits=11"), ConfigError);
  EXPECT_THROW(open("sorter?samples=730"), ConfigError);
}

TEST(MaskedWords, MakePairsOfSentences) {
  const auto data = open("masked_words?samples=400&length=24&words=50&seed=3");
  std::size_t asked = 0, masked = 0, words = 0, random = 0;
  for (std::int64_t id = 0; id < data->size(); ++id) {
    const Tokens ids = sample<std::int64_t>(*data, "input_ids", id);
    const Tokens types = sample<std::int64_t>(*data, "token_type_ids", id);
    const Tokens attended = sample<std::int64_t>(*data, "attention_mask", id);
    const Tokens labels = sample<std::int64_t>(*data, "labels", id);
    random += sample<std::int64_t>(*data, "next_sentence_label", id)[0] == 1 ? 1 : 0;
    const auto length = static_cast<std::size_t>(std::ranges::count(attended, 1));
    EXPECT_GE(length, 12U);
    EXPECT_EQ(ids[0], 1);
    EXPECT_EQ(ids[length - 1], 2);
    EXPECT_EQ(std::ranges::count(ids, 2), 2) << "both sentences end";
    EXPECT_TRUE(std::ranges::is_sorted(types.begin(), types.begin() + static_cast<std::ptrdiff_t>(length)));
    for (std::size_t i = 0; i < ids.size(); ++i) {
      EXPECT_EQ(attended[i], i < length ? 1 : 0);
      EXPECT_EQ(ids[i] == 0, i >= length);
      words += labels[i] != kIgnored || ids[i] > 3 ? 1 : 0;
      if (labels[i] == kIgnored) continue;
      EXPECT_GE(labels[i], 4);
      EXPECT_LT(labels[i], 54);
      ++asked;
      masked += ids[i] == 3 ? 1 : 0;
    }
  }
  EXPECT_NEAR(static_cast<double>(asked) / static_cast<double>(words), 0.15, 0.02);
  EXPECT_NEAR(static_cast<double>(masked) / static_cast<double>(asked), 0.8, 0.05);
  EXPECT_NEAR(static_cast<double>(random), 200, 40);
}

// All pairs of words that follow each other, unmasked.
std::set<std::pair<std::int64_t, std::int64_t>> followers(const Dataset& data) {
  std::set<std::pair<std::int64_t, std::int64_t>> pairs;
  for (std::int64_t id = 0; id < data.size(); ++id) {
    const Tokens ids = sample<std::int64_t>(data, "input_ids", id);
    const Tokens labels = sample<std::int64_t>(data, "labels", id);
    for (std::size_t i = 1; i < ids.size(); ++i) {
      const bool are_words = ids[i - 1] > 3 && ids[i] > 3;
      if (are_words && labels[i - 1] == kIgnored && labels[i] == kIgnored) pairs.emplace(ids[i - 1], ids[i]);
    }
  }
  return pairs;
}

TEST(MaskedWords, HaveFewWordsThatMayFollowOne) {
  const auto pairs = followers(*open("masked_words?samples=500&words=40&branches=2"));
  EXPECT_LE(pairs.size(), 80U);
  EXPECT_GE(pairs.size(), 70U);
}

TEST(Shapes, HaveColorsOfTheirClass) {
  const auto data = open("shapes?samples=300&image_size=16&classes=10");
  EXPECT_FALSE(data->tensors().contains("answers"));
  std::map<std::int64_t, std::vector<double>> reds;
  for (std::int64_t id = 0; id < data->size(); ++id) {
    const auto image = sample<float>(*data, "input", id);
    EXPECT_GE(std::ranges::min(image), 0);
    EXPECT_LE(std::ranges::max(image), 1);
    const std::int64_t label = sample<std::int64_t>(*data, "labels", id)[0];
    reds[label].push_back(std::accumulate(image.begin(), image.begin() + 256, 0.0) / 256);
  }
  ASSERT_EQ(reds.size(), 10U);
  const auto mean = [](const std::vector<double>& of) {
    return std::accumulate(of.begin(), of.end(), 0.0) / static_cast<double>(of.size());
  };
  for (std::int64_t kind = 0; kind < 5; ++kind) EXPECT_GT(mean(reds[kind]), mean(reds[kind + 5]) + 0.05);
}

TEST(Shapes, OfTwoClassesAreAnsweredByOneNumber) {
  const auto data = open("shapes?samples=20&classes=2&image_size=8");
  for (std::int64_t id = 0; id < data->size(); ++id) {
    EXPECT_EQ(sample<float>(*data, "answers", id)[0],
              static_cast<float>(sample<std::int64_t>(*data, "labels", id)[0]));
  }
}

// What a sample is depends on the seed and its id alone.
TEST(Generated, SamplesAreTheSameInEveryOrder) {
  const auto data = open("shapes?samples=50&image_size=4");
  const auto both = gathered<float>(*data, "input", {40, 7});
  const auto of_7 = sample<float>(*data, "input", 7);
  EXPECT_EQ(std::vector<float>(both.begin() + 48, both.end()), of_7);
  EXPECT_NE(sample<float>(*open("shapes?samples=50&image_size=4&seed=1"), "input", 7), of_7);
}

TEST(Generated, RefusesOptionsItDoesNotHave) {
  EXPECT_THROW(open("sorter?seed=1"), ConfigError);
  EXPECT_THROW(open("masked_words?length=6"), ConfigError);
  EXPECT_THROW(open("shapes?classes=1"), ConfigError);
  EXPECT_THROW(open("digits?scale=2"), ConfigError);
  EXPECT_THROW(open("shapes_of_things"), ConfigError);
}

}  // namespace
}  // namespace rookery
