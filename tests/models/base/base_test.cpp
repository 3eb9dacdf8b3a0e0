#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <numeric>
#include <optional>

#include "models/base/check.hpp"
#include "models/base/error.hpp"
#include "models/base/files/file_lock.hpp"
#include "models/base/files/files.hpp"
#include "models/base/files/json_file.hpp"
#include "models/base/files/problems.hpp"
#include "models/base/named_options.hpp"
#include "models/base/rng.hpp"
#include "models/base/text.hpp"
#include "tests/support/failing_files.hpp"

namespace rookery {
namespace {

class TemporaryFolder : public testing::Test {
 protected:
  void SetUp() override {
    path_ = std::filesystem::temp_directory_path() / ("rookery-base-" + std::to_string(::getpid()));
    std::filesystem::create_directories(path_);
  }
  void TearDown() override { std::filesystem::remove_all(path_); }

  std::filesystem::path write(const std::string& name, const std::string& text) {
    std::ofstream(path_ / name, std::ios::binary) << text;
    return path_ / name;
  }
  std::string error_of(const std::string& text) {
    try {
      read_json(write("a.json", text));
    } catch (const ConfigError& error) {
      return error.what();
    }
    return "";
  }

  std::filesystem::path path_;
};

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

TEST(Problems, AreToldTogetherEachWithItsPlace) {
  Problems problems;
  EXPECT_NO_THROW(problems.throw_if_any("pool.json"));
  problems.add("0/ram", shown("8GB") + " is not a number");
  problems.add_unknown_key("0", "bandw\nidth", std::vector<std::string>{"ram", "bandwidth"});
  problems.add("", "there are no nodes");
  try {
    problems.throw_if_any("pool.json");
    FAIL();
  } catch (const ConfigError& error) {
    EXPECT_STREQ(error.what(),
                 "pool.json: 0/ram: \"8GB\" is not a number; 0/bandw\\x0aidth: there is no such key; did you "
                 "mean 'bandwidth'?; "
                 "there are no nodes");
  }
}

TEST(Problems, LongValuesAreShortened) {
  std::string letters;
  for (int i = 0; i < 100; ++i) letters += "ü";
  const std::string text = shown(letters);
  EXPECT_LE(text.size(), 90U);
  EXPECT_TRUE(text.ends_with("ü…")) << text;
  EXPECT_EQ(shown(0.5), "0.5");
  EXPECT_EQ(shown(nullptr), "null");
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
  std::vector<std::int64_t> expected(static_cast<std::size_t>(n));
  std::iota(expected.begin(), expected.end(), 0);
  RC_ASSERT(order == expected);
}

TEST_F(TemporaryFolder, AnUncommittedFileLeavesTheOldOne) {
  write("kept", "old");
  {
    AtomicFile file(path_ / "kept");
    file.write("new and only half there");
  }
  EXPECT_EQ(read_file(path_ / "kept", 100), "old");
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(path_), {}), 1);
  write_file(path_ / "kept", "new");
  EXPECT_EQ(read_file(path_ / "kept", 100), "new");
}

TEST_F(TemporaryFolder, FilesThatCannotBeWrittenAreNamed) {
  try {
    write_file(path_ / "no" / "folder", "text");
    FAIL();
  } catch (const DataError& error) {
    EXPECT_NE(std::string(error.what()).find("no/folder: cannot create: No such file"), std::string::npos);
  }
}

TEST_F(TemporaryFolder, ADiskThatFailsIsAnErrorThatSaysSoAndLeavesTheOldFile) {
  write("target", "old");
  FailingFiles disk;
  const auto problem = [&] {
    try {
      write_file(path_ / "target", "longer");
    } catch (const DataError& error) {
      return std::string(error.what());
    }
    return std::string("no error");
  };
  disk.room = 4;
  EXPECT_THAT(problem(), testing::EndsWith("target: cannot write: No space left on device"));
  disk.room = FailingFiles::kUnlimited;
  disk.failing_flushes = 1;
  EXPECT_THAT(problem(), testing::EndsWith("target: cannot flush: Input/output error"));
  disk.failing_renames = 1;
  EXPECT_THAT(problem(), testing::EndsWith("target: cannot rename into place: Permission denied"));
  disk.descriptors = 0;
  EXPECT_THAT(problem(), testing::EndsWith("target: cannot create: Too many open files"));
  EXPECT_EQ(read_file(path_ / "target", 100), "old");
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(path_), {}), 1);
}

// What is open already needs none to be finished.
TEST_F(TemporaryFolder, AFileIsCommittedWithoutDescriptors) {
  FailingFiles disk;
  AtomicFile file(path_ / "target", 3);
  disk.descriptors = 0;
  file.write("new");
  file.commit();
  EXPECT_EQ(read_file(path_ / "target", 100), "new");
}

TEST_F(TemporaryFolder, RoomThatIsNotThereIsMissedBeforehand) {
  FailingFiles disk;
  disk.room = 100;
  try {
    const AtomicFile file(path_ / "target", 101);
    FAIL();
  } catch (const DataError& error) {
    EXPECT_THAT(error.what(),
                testing::EndsWith("target: no room for its 101 bytes: No space left on device"));
  }
  EXPECT_TRUE(std::filesystem::is_empty(path_));
}

TEST_F(TemporaryFolder, ReservedRoomIsTakenAtOnceAndGivenBack) {
  AtomicFile file(path_ / "reserved", 1 << 20);
  file.write("short");
  file.commit();
  EXPECT_EQ(read_file(path_ / "reserved", 100), "short");
  AtomicFile longer(path_ / "reserved", 2);
  longer.write("longer than two");
  longer.commit();
  EXPECT_EQ(read_file(path_ / "reserved", 100), "longer than two");
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(path_), {}), 1);
  EXPECT_THROW(AtomicFile(path_ / "large", std::uint64_t{1} << 60), DataError);
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(path_), {}), 1);
}

TEST_F(TemporaryFolder, LocksAreSharedOrHeldAlone) {
  using Kind = FileLock::Kind;
  FileLock outer(path_ / "lock");
  {
    FileLock one(path_ / "lock");
    FileLock other(path_ / "lock");
    EXPECT_TRUE(one.try_take(Kind::kShared));
    EXPECT_TRUE(other.try_take(Kind::kShared));
    EXPECT_FALSE(outer.try_take(Kind::kExclusive));
    EXPECT_EQ(outer.holders(), "process " + std::to_string(::getpid()) + " (test_base)");
  }
  EXPECT_TRUE(outer.try_take(Kind::kExclusive));
  FileLock late(path_ / "lock");
  EXPECT_FALSE(late.try_take(Kind::kShared));
  std::string told;
  std::optional<FileLock> held(std::move(outer));
  late.take(Kind::kShared, [&](const std::string& holders) {
    told = holders;
    held.reset();
  });
  EXPECT_NE(told.find("(test_base)"), std::string::npos);
}

TEST_F(TemporaryFolder, WithoutLocksAllGoesOn) {
  EXPECT_TRUE(FileLock(path_ / "no" / "folder" / "lock").try_take(FileLock::Kind::kExclusive));
  EXPECT_TRUE(FileLock("/sys/nobody-may-write-here").try_take(FileLock::Kind::kExclusive));
}

TEST_F(TemporaryFolder, TooLargeFilesAreNotRead) {
  write("large", std::string(101, 'x'));
  EXPECT_THROW(read_file(path_ / "large", 100), DataError);
}

TEST_F(TemporaryFolder, JsonErrorsHaveAPlace) {
  EXPECT_NE(error_of("{\"a\": 1,\n \"b\": }").find("line 2"), std::string::npos);
  EXPECT_NE(error_of("{\"a\": 1, \"a\": 2}").find("key \"a\" is there twice"), std::string::npos);
  EXPECT_NE(error_of(std::string(100, '[') + std::string(100, ']')).find("levels deep"), std::string::npos);
  EXPECT_NE(error_of("").find("a.json"), std::string::npos);
}

TEST(Json, SchemaErrorsNameThePath) {
  const Json schema = Json::parse(R"({"type": "object", "properties": {"nodes": {"type": "array", "items":
      {"type": "object", "properties": {"ram": {"type": "number", "exclusiveMinimum": 0}}}}}})");
  const Json document = Json::parse(R"({"nodes": [{"ram": 1}, {"ram": -8}]})");
  try {
    validate_json(document, schema, "pool.json");
    FAIL();
  } catch (const ConfigError& error) {
    EXPECT_EQ(std::string(error.what()).rfind("pool.json: nodes/1/ram: ", 0), 0U) << error.what();
  }
  EXPECT_NO_THROW(validate_json(Json::parse(R"({"nodes": [{"ram": 8}]})"), schema, "pool.json"));
}

TEST(Json, NewerFormatsAreRefusedNamingBothVersions) {
  const auto error_of = [](const char* text) -> std::string {
    try {
      check_format(Json::parse(text), "rookery.node", 2, "n.json");
    } catch (const ConfigError& error) {
      return error.what();
    }
    return "";
  };
  EXPECT_EQ(error_of(R"({"format": "rookery.node", "version": 2})"), "");
  EXPECT_NE(error_of(R"({"format": "rookery.node", "version": 3})")
                .find("format version 3, this program knows up to 2"),
            std::string::npos);
  EXPECT_NE(error_of(R"({"format": "other", "version": 1})").find("not a rookery.node file"),
            std::string::npos);
  EXPECT_NE(error_of(R"({"format": "rookery.node", "version": "1"})"), "");
  EXPECT_NE(error_of("[]"), "");
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
