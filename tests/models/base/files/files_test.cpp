#include "models/base/files/files.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <optional>
#include <string>

#include "models/base/error.hpp"
#include "models/base/files/file_lock.hpp"
#include "models/base/files/json_file.hpp"
#include "models/base/files/problems.hpp"
#include "models/base/libraries/json.hpp"
#include "tests/support/failing_files.hpp"
#include "tests/support/scratch_folder.hpp"

namespace rookery {
namespace {

class TemporaryFolder : public testing::Test {
 protected:
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

  const ScratchFolder folder_;
  const std::filesystem::path path_ = folder_.path();
};

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

}  // namespace
}  // namespace rookery
