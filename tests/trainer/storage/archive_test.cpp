// Archives as folders.
#include "trainer/storage/archive.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>

#include "models/base/error.hpp"
#include "models/base/files/files.hpp"
#include "tests/support/archives.hpp"
#include "tests/support/problem.hpp"
#include "tests/support/scratch_folder.hpp"

namespace rookery {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;

class ArchiveTest : public testing::TestWithParam<const char*> {
 protected:
  std::filesystem::path path() const { return folder_.path() / (std::string("a") + GetParam()); }
  std::unique_ptr<FileTree> open(const std::string& below = "") const { return open_tree(path() / below); }
  static std::string content(const FileTree& tree, const std::string& name) {
    return read_whole(*tree.open(name), 1 << 20);
  }

  ScratchFolder folder_;
};

const std::string kLong(3000, 'x');

std::string content_of(const std::filesystem::path& archive, const std::string& name) {
  return read_whole(*open_tree(archive)->open(name), 1 << 20);
}

TEST_P(ArchiveTest, IsAFolderOfItsFiles) {
  const std::string far_below = std::string(120, 'n') + "/" + std::string(120, 'm');
  write_archive(path(), {{"./cats/b", "two"},
                         {"cats/a", kLong},
                         {"dogs/.hidden", "-"},
                         {".cats/x", "-"},
                         {"dogs/empty", ""},
                         {far_below, "deep"},
                         {"top", "of no folder"}});
  const auto tree = open();
  EXPECT_THAT(tree->files(), ElementsAre("cats/a", "cats/b", "dogs/empty", far_below, "top"));
  EXPECT_THAT(tree->folders(), ElementsAre("cats", "dogs", std::string(120, 'n')));
  EXPECT_EQ(content(*tree, "cats/a"), kLong);
  EXPECT_EQ(content(*tree, "cats/b"), "two");
  EXPECT_EQ(content(*tree, "dogs/empty"), "");
  EXPECT_EQ(content(*tree, far_below), "deep");
  EXPECT_EQ(content(*tree, "top"), "of no folder");
  EXPECT_THAT(problem<DataError>([&] { tree->open("cats/c"); }), HasSubstr("cats/c: there is no such file"));
}

TEST_P(ArchiveTest, MayBeEnteredBelow) {
  write_archive(path(), {{"pets/cats/a", "1"}, {"pets/dogs/b", "2"}, {"else", "3"}});
  const auto tree = open("pets");
  EXPECT_THAT(tree->files(), ElementsAre("cats/a", "dogs/b"));
  EXPECT_EQ(content(*tree, "dogs/b"), "2");
  EXPECT_EQ(read_whole(*open_file(path() / "pets/dogs/b"), 10), "2");
  EXPECT_EQ(read_whole(*open_file(path() / "else"), 10), "3");
  EXPECT_THAT(problem<DataError>([&] { open("birds"); }), HasSubstr("has no files below birds"));
}

TEST_P(ArchiveTest, OfSeveralFilesOfOneNameTheLastCounts) {
  write_archive(path(), {{"a", "old"}, {"b", "other"}, {"a", "new"}});
  EXPECT_THAT(open()->files(), ElementsAre("a", "b"));
  EXPECT_EQ(content(*open(), "a"), "new");
}

TEST_P(ArchiveTest, ThatIsCutShortIsAnErrorThatNamesIt) {
  ArchivedFiles files;
  for (int i = 0; i < 20; ++i) files.emplace_back("f" + std::to_string(i), kLong + std::to_string(i));
  write_archive(path(), files);
  const std::string whole = read_file(path(), 1 << 20);
  for (const std::size_t kept : {whole.size() / 2, whole.size() / 3, std::size_t{100}}) {
    write_file(path(), whole.substr(0, kept));
    EXPECT_THAT(problem<DataError>([&] { open(); }), HasSubstr(path().string())) << kept;
  }
}

TEST_P(ArchiveTest, OfAnotherKindThanItsNameSaysIsAnError) {
  write_file(path(), std::string(2000, 'z'));
  EXPECT_THAT(problem<DataError>([&] { open(); }), HasSubstr(path().string()));
  write_file(path(), "");
  EXPECT_NE(problem<DataError>([&] { open(); }), "none");
}

INSTANTIATE_TEST_SUITE_P(All, ArchiveTest, testing::Values(".tar", ".tar.gz", ".zip"),
                         [](const auto& kind) { return std::to_string(kind.index); });

TEST(Archive, ThatUnpacksToMoreThanItMayIsAnError) {
  const ScratchFolder folder;
  for (const char* name : {"a.zip", "a.tar.gz"}) {
    write_archive(folder.path() / name, {{"zeros", std::string(1 << 20, '\0')}});
    const SharedFile file = open_local_file(folder.path() / name);
    EXPECT_LT(file->size(), 1 << 13);
    EXPECT_NO_THROW(open_archive(file, "", 2 << 20));
    EXPECT_THROW(open_archive(file, "", 1 << 19), DataError) << name;
  }
}

TEST(Archive, AGzipThatIsDamagedBehindTheLastFileIsSeen) {
  const ScratchFolder folder;
  const auto path = folder.path() / "a.tar.gz";
  write_archive(path, {{"a", kLong}});
  std::string bytes = read_file(path, 1 << 20);
  bytes[bytes.size() - 6] ^= 1;  // of the checksum
  write_file(path, bytes);
  EXPECT_THROW(open_tree(path), DataError);
}

// A checksum that differs is a warning to the library.
TEST(Archive, AZipWithAByteThatIsAnotherIsSeen) {
  const ScratchFolder folder;
  const auto path = folder.path() / "a.zip";
  std::string noise(300'000, '\0');
  std::mt19937 random(3);
  for (char& byte : noise) byte = static_cast<char>(random());
  write_archive(path, {{"a", noise}});
  std::string bytes = read_file(path, 1 << 20);
  bytes[bytes.size() / 2] ^= 1;
  write_file(path, bytes);
  EXPECT_THROW(content_of(path, "a"), DataError);
}

TEST(Archive, MembersOfATarStandWhereTheyAreSaidTo) {
  const ScratchFolder folder;
  const auto path = folder.path() / "a.tar";
  write_archive(path, {{"a", "first"}, {std::string(200, 'l'), kLong}, {"b", "last"}});
  const std::string bytes = read_file(path, 1 << 20);
  const std::vector<TarMember> members = tar_members(open_local_file(path));
  ASSERT_EQ(members.size(), 3U);
  EXPECT_EQ(bytes.substr(members[0].offset, members[0].bytes), "first");
  EXPECT_EQ(bytes.substr(members[1].offset, members[1].bytes), kLong);
  EXPECT_EQ(bytes.substr(members[2].offset, members[2].bytes), "last");
}

}  // namespace
}  // namespace rookery
