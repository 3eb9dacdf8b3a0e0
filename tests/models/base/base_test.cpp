#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <limits>
#include <numeric>

#include "models/base/check.hpp"
#include "models/base/error.hpp"
#include "models/base/libraries/json.hpp"
#include "models/base/named_options.hpp"
#include "models/base/rng.hpp"
#include "models/base/text.hpp"

namespace rookery {
namespace {

TEST(Error, ContextStandsOutermostFirst) {
  try {
    with_context("outer", [] { with_context("inner", [] { throw DataError("broken"); }); });
    FAIL();
  } catch (const DataError& error) {
    EXPECT_STREQ(error.what(), "outer: inner: broken");
  }
}

TEST(Error, ContextKeepsTheValue) {
  int value = 3;
  int& same = with_context("unused", [&]() -> int& { return value; });
  EXPECT_EQ(&same, &value);
}

TEST(Text, OfOthersIsFitForATerminal) {
  EXPECT_EQ(printable("nöde_1 → 数", 64), "nöde_1 → 数");
  EXPECT_EQ(printable("a\x1b[2J\n\x7f", 64), "a\\x1b[2J\\x0a\\x7f");
  EXPECT_EQ(printable("safe\u202etxt\u2066\u200f\u2028", 64), "safe\\u{202e}txt\\u{2066}\\u{200f}\\u{2028}");
  EXPECT_EQ(printable("\xc0\xaf\xed\xa0\x80\xff", 64), "\\xc0\\xaf\\xed\\xa0\\x80\\xff") << "no UTF-8";
  EXPECT_EQ(printable("\xc3", 64), "\\xc3") << "cut short";
  EXPECT_EQ(printable("\xc2\x9b", 64), "\\u{009b}") << "CSI";
  EXPECT_EQ(printable(std::string(4000, 'x'), 8), "xxxxxxxx…");
  EXPECT_EQ(printable("aaaaaaaä", 8), "aaaaaaa…") << "no half of a character";
}

TEST(EditDistance, CountsChangesAdditionsAndOmissions) {
  EXPECT_EQ(edit_distance("", ""), 0U);
  EXPECT_EQ(edit_distance("epochs", "epochs"), 0U);
  EXPECT_EQ(edit_distance("epoch", "epochs"), 1U);
  EXPECT_EQ(edit_distance("kitten", "sitting"), 3U);
  EXPECT_EQ(edit_distance("", "ram"), 3U);
}

TEST(NearestName, IsNoFurtherThanAThirdOfTheLetters) {
  const std::vector<std::string> keys{"epochs", "save", "seed", "batch_size"};
  EXPECT_EQ(nearest_name("epoch", keys), "epochs");
  EXPECT_EQ(nearest_name("batchsize", keys), "batch_size");
  EXPECT_EQ(nearest_name("SEED", keys), "seed");
  for (const char* far : {"device", "", "sa", "colour", "batch"})
    EXPECT_EQ(nearest_name(far, keys), "") << far;
}

TEST(Check, NamesConditionAndNumbers) {
  try {
    ROOKERY_CHECK(1 == 2, "{} apples", 7);
    FAIL();
  } catch (const BugError& error) {
    EXPECT_NE(std::string(error.what()).find("1 == 2 does not hold: 7 apples"), std::string::npos);
  }
}

// Known answers of Random123 (kat_vectors, philox4x32 10).
TEST(Philox, KnownAnswers) {
  EXPECT_EQ(philox({0, 0, 0, 0}, {0, 0}), (PhiloxBlock{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}));
  EXPECT_EQ(philox({0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff}, {0xffffffff, 0xffffffff}),
            (PhiloxBlock{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}));
  EXPECT_EQ(philox({0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}, {0xa4093822, 0x299f31d0}),
            (PhiloxBlock{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}));
}

TEST(Rng, KeysDifferByNameAndSeed) {
  EXPECT_NE(rng_key(1, "a"), rng_key(1, "b"));
  EXPECT_NE(rng_key(1, "a"), rng_key(2, "a"));
  EXPECT_EQ(rng_key(1, "a"), rng_key(1, "a"));
}

TEST(Rng, FloatsAreUniform) {
  CounterRng rng(rng_key(42, "test"), 0);
  double sum = 0;
  constexpr int kDraws = 100000;
  for (int i = 0; i < kDraws; ++i) {
    const float x = rng.next_float();
    ASSERT_GE(x, 0.0F);
    ASSERT_LT(x, 1.0F);
    sum += x;
  }
  EXPECT_NEAR(sum / kDraws, 0.5, 0.005);  // five standard deviations
}

RC_GTEST_PROP(Rng, PermutationsHoldEveryNumberOnce, (std::uint64_t seed)) {
  const std::int64_t n = *rc::gen::inRange<std::int64_t>(0, 500);
  std::vector<std::int64_t> order = random_permutation(n, rng_key(seed, "order"), 3);
  RC_ASSERT(order == random_permutation(n, rng_key(seed, "order"), 3));
  std::ranges::sort(order);
  std::vector<std::int64_t> expected(n);
  std::iota(expected.begin(), expected.end(), 0);
  RC_ASSERT(order == expected);
}

TEST(IntegerFrom, TakesIntegersOfTheTypeAlone) {
  using Json = nlohmann::json;
  EXPECT_EQ(integer_from<int>(Json::parse("-7")), -7);
  EXPECT_EQ(integer_from<std::int64_t>(Json::parse("-9223372036854775808")),
            std::numeric_limits<std::int64_t>::min());
  EXPECT_EQ(integer_from<std::uint64_t>(Json::parse("18446744073709551615")),
            std::numeric_limits<std::uint64_t>::max());
  for (const char* text : {"1e30", "2222222222222222222222222", "0.5", "1.0", "true", "null", "\"1\"", "[1]",
                           "9223372036854775808"})
    EXPECT_THROW(integer_from<std::int64_t>(Json::parse(text)), Json::type_error) << text;
  EXPECT_THROW(integer_from<int>(Json::parse("2147483648")), Json::type_error);
  EXPECT_THROW(integer_from<std::uint64_t>(Json::parse("-1")), Json::type_error);
}

TEST(NamedOptions, AreReadByKind) {
  NamedOptions options("a:thing?size=3&share=0.5&kind=big&unread=1");
  EXPECT_EQ(options.name(), "a:thing");
  EXPECT_TRUE(options.has("size"));
  EXPECT_EQ(options.integer("size", 1, 0, 3), 3);
  EXPECT_EQ(options.integer("other", 7, 0, 9), 7);
  EXPECT_EQ(options.number("share", 1, 0, 1), 0.5);
  EXPECT_EQ(options.choice("kind", "small", std::vector<std::string>{"small", "big"}), "big");
  EXPECT_THAT(options.asked(), testing::ElementsAre("size=3", "other=7", "share=0.5", "kind=big"));
  EXPECT_THROW(options.expect_none_left(), ConfigError);
  EXPECT_EQ(options.integer("unread", 0, 0, 1), 1);
  options.expect_none_left();
}

TEST(NamedOptions, RefuseWhatIsNone) {
  for (const char* text : {"a?b", "a?=1", "a?b=1&b=2", "a?b=1&&c=2"})
    EXPECT_THROW(NamedOptions{text}, ConfigError) << text;
  for (const char* text : {"a?n=", "a?n=1x", "a?n=x", "a?n=11", "a?n=-1", "a?n=1.5"})
    EXPECT_THROW(NamedOptions(text).integer("n", 0, 0, 10), ConfigError) << text;
  for (const char* text : {"a?n=nan", "a?n=inf", "a?n=1e3", "a?n="})
    EXPECT_THROW(NamedOptions(text).number("n", 0, 0, 10), ConfigError) << text;
}

}  // namespace
}  // namespace rookery
