#include "trainer/encoding/codec.hpp"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>
#include <regex>
#include <string>
#include <vector>

#include "models/base/error.hpp"
#include "models/base/libraries/format.hpp"

namespace rookery {
namespace {

using Numbers = std::vector<float>;

constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();
constexpr float kInfinity = std::numeric_limits<float>::infinity();

Numbers passed(const std::string& compression, const Numbers& numbers) {
  const auto codec = make_codec(parse_compression(compression));
  std::vector<std::byte> bytes(codec->block_bytes(numbers.size()) + 1, std::byte{0xA5});
  codec->encode(numbers, bytes.data());
  EXPECT_EQ(bytes.back(), std::byte{0xA5}) << "written beyond its bytes";
  Numbers decoded(numbers.size(), 77);
  codec->decode(bytes.data(), decoded);
  return decoded;
}

Numbers normal_numbers(std::size_t count, unsigned seed) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal;
  Numbers numbers(count);
  for (float& number : numbers) number = normal(random);
  return numbers;
}

float largest_magnitude(const Numbers& numbers) {
  float largest = 0;
  for (const float number : numbers) largest = std::max(largest, std::abs(number));
  return largest;
}

const char* const kAll[] = {"fp16", "bf16", "int8", "int4", "topk:0.01", "topk:0.05:8", "topk:0.05:2"};

RC_GTEST_PROP(Codec, LosesNoMoreThanItsSteps, ()) {
  const auto count = *rc::gen::inRange<std::size_t>(1, 129);
  const Numbers numbers = normal_numbers(count, *rc::gen::arbitrary<unsigned>());
  const float largest = largest_magnitude(numbers);
  const auto within = [&](const char* compression, auto bound) {
    const Numbers decoded = passed(compression, numbers);
    for (std::size_t i = 0; i < count; ++i)
      RC_ASSERT(std::abs(decoded[i] - numbers[i]) <= bound(std::abs(numbers[i])) * 1.0001F);
  };
  within("fp16", [](float magnitude) { return magnitude / 2048 + 3e-8F; });
  within("bf16", [](float magnitude) { return magnitude / 256; });
  within("int8", [&](float) { return largest / 127 / 2; });
  within("int4", [&](float) { return largest / 7 / 2; });
}

// By sorting.
RC_GTEST_PROP(Codec, OfTheLargestKeepsThemAndNothingElse, ()) {
  const auto count = *rc::gen::inRange<std::size_t>(1, 4097);
  const Numbers numbers = normal_numbers(count, *rc::gen::arbitrary<unsigned>());
  const auto kept = static_cast<std::size_t>(std::ceil(0.01 * static_cast<double>(count)));
  Numbers sorted = numbers;
  std::ranges::sort(sorted, std::ranges::greater(), [](float number) { return std::abs(number); });
  const float least = std::abs(sorted[kept - 1]);
  const float most = std::abs(sorted.front());
  const Numbers exact = passed("topk:0.01", numbers);
  const Numbers bytes = passed("topk:0.01:8", numbers);
  const Numbers pairs = passed("topk:0.01:2", numbers);
  for (std::size_t i = 0; i < count; ++i) {
    const bool is_kept = std::abs(numbers[i]) >= least;
    RC_ASSERT(exact[i] == (is_kept ? numbers[i] : 0));
    RC_ASSERT(std::abs(bytes[i] - exact[i]) <= most / 127);
    RC_ASSERT(std::abs(pairs[i] - exact[i]) <= (most - least) / 4 + most * 1e-6F);
    RC_ASSERT(is_kept == (pairs[i] != 0));
  }
}

TEST(Codec, OfEqualNumbersKeepsTheFirst) {
  const Numbers decoded = passed("topk:0.02", Numbers(100, -3));
  EXPECT_EQ(decoded[0], -3);
  EXPECT_EQ(decoded[1], -3);
  EXPECT_EQ(std::ranges::count(decoded, 0.0F), 98);
}

TEST(Codec, TakesAsManyBytesAsItSays) {
  const auto bytes_of = [](const char* compression, std::size_t numbers) {
    return make_codec(parse_compression(compression))->bytes(numbers);
  };
  EXPECT_EQ(bytes_of("fp16", 10'000), 20'000U);
  EXPECT_EQ(bytes_of("int8", 1000), 1000U + 4 * 4);
  EXPECT_EQ(bytes_of("int4", 1001), 501U + 8 * 4);
  // 41 of a block: 62 bytes of places, 11 of pairs, and two magnitudes.
  EXPECT_EQ(bytes_of("topk:0.01:2", 2 * 4096), 2U * (62 + 11 + 8));
  EXPECT_EQ(bytes_of("topk:0.01:8", 4096), 62U + 41 + 4);
  EXPECT_EQ(bytes_of("topk:0.01", 4096), 62U + 164);
  EXPECT_EQ(make_codec(parse_compression("none")), nullptr);
}

TEST(Codec, KeepsZeros) {
  for (const char* compression : kAll)
    EXPECT_EQ(passed(compression, Numbers(50, 0)), Numbers(50, 0)) << compression;
}

TEST(Codec, ShowsWhatIsNoNumber) {
  for (const char* compression : kAll) {
    for (const float bad : {kNaN, kInfinity, -kInfinity}) {
      Numbers numbers = normal_numbers(100, 1);
      numbers[70] = bad;
      const Numbers decoded = passed(compression, numbers);
      const bool saturates = compression[1] == 'p' || compression[1] == 'f';  // fp16, bf16
      if (saturates && std::isinf(bad)) {
        EXPECT_GT(std::abs(decoded[70]), 60'000) << compression;
      } else {
        EXPECT_FALSE(std::isfinite(decoded[70])) << compression << " " << bad;
      }
    }
  }
}

TEST(Codec, OfHalvesTakesTheLargestForWhatIsTooLarge) {
  EXPECT_EQ(passed("fp16", {1e6F, -1e6F, 65504, 0.5F}), (Numbers{65504, -65504, 65504, 0.5F}));
  EXPECT_EQ(passed("bf16", {1e6F, 1, -1.0078125F}), (Numbers{999424, 1, -1.0078125F}));
}

TEST(Codec, OfTinyNumbersMakesNoNonsense) {
  for (const char* compression : kAll) {
    for (const float number : passed(compression, Numbers(30, 1e-45F)))
      EXPECT_LE(std::abs(number), 1e-40F) << compression;
  }
}

TEST(ParseCompression, RefusesOtherTexts) {
  for (const char* text :
       {"", "fp8", "topk", "topk:0", "topk:0.0", "topk:1", "topk:0.1:4", "topk:0.1:", "int8 "})
    EXPECT_THROW(parse_compression(text), ConfigError) << text;
  EXPECT_THROW(parse_compression("topk:0." + std::string(400, '0') + "1"), ConfigError);
  const Compression compression = parse_compression("topk:0.005:8");
  EXPECT_EQ(compression.encoding, Encoding::kTopK);
  EXPECT_DOUBLE_EQ(compression.share, 0.005);
  EXPECT_EQ(compression.value_bits, 8);
}

bool is_parsed(const std::string& text) {
  try {
    parse_compression(text);
    return true;
  } catch (const ConfigError&) {
    return false;
  }
}

// The pattern is what train.json is checked against. Texts of up to four pieces, most of which are none.
TEST(ParseCompression, TakesTheTextsOfItsPattern) {
  const std::regex pattern(kCompressionPattern);
  const std::vector<std::string> pieces{
      "",  "none", "fp16", "bf16", "int8", "int4", "topk:", "0.", "0", "000",      "1",
      "5", "90",   ".",    ":",    ":32",  ":8",   ":2",    "-",  " ", "123456789"};
  int parsed = 0;
  for (const std::string& a : pieces) {
    for (const std::string& b : pieces) {
      for (const std::string& c : pieces) {
        for (const std::string& d : pieces) {
          const std::string text = fmt::format("{}{}{}{}", a, b, c, d);
          ASSERT_EQ(is_parsed(text), std::regex_match(text, pattern)) << text;
          parsed += is_parsed(text) ? 1 : 0;
        }
      }
    }
  }
  EXPECT_GT(parsed, 60);
}

}  // namespace
}  // namespace rookery
