// Shards as data sets, and archives of images.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "models/base/error.hpp"
#include "models/base/files/files.hpp"
#include "tests/support/archives.hpp"
#include "tests/support/gathered.hpp"
#include "tests/support/problem.hpp"
#include "tests/support/repository.hpp"
#include "tests/support/scratch_folder.hpp"
#include "trainer/data/dataset.hpp"

namespace rookery {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
namespace fs = std::filesystem;

std::string image(const std::string& name) {
  return read_file(kGolden / "images" / name, 1 << 20);
}

class ShardsTest : public testing::Test {
 protected:
  void put(const std::string& name, const ArchivedFiles& files) const {
    write_archive(folder_.path() / name, files);
  }
  void put_two() const {
    put("train-08.tar", {{"b.cls", "1\n"},
                         {"b.jpg", image("plain.jpg")},
                         {"b.json", "{}"},
                         {"a.cls", "0"},
                         {"a.png", image("plain.png")}});
    put("train-09.tar", {{"c/d.seg.cls", "7"}, {"c/d.webp", image("lossy.webp")}, {"c/d.cls", "2"}});
  }
  std::unique_ptr<Dataset> open(const std::string& name) const {
    return open_dataset("webdataset:" + name, folder_.path(), {.cache_mib = 0});
  }
  ScratchFolder folder_;
};

TEST_F(ShardsTest, HaveSamplesInTheOrderInWhichTheyStand) {
  put_two();
  for (const char* name : {"train-{08..09}.tar", "."}) {
    const auto data = open(std::string(name) + "?size=16");
    ASSERT_EQ(data->size(), 3) << name;
    EXPECT_THAT(gathered<std::int64_t>(*data, "labels", {0, 1, 2}), ElementsAre(1, 0, 2));
    EXPECT_THAT(data->class_names(), ElementsAre("0", "1", "2"));
  }
  fs::create_directories(folder_.path() / "plain/x");
  write_file(folder_.path() / "plain/x/a.jpg", image("plain.jpg"));
  const auto plain = open_dataset("images:plain?size=16", folder_.path());
  EXPECT_EQ(gathered<float>(*open("train-08.tar?size=16"), "input", {0}),
            gathered<float>(*plain, "input", {0}));
}

TEST_F(ShardsTest, SamplesThatLackSomethingAreLeftOutAndToldOf) {
  put("a.tar", {{"a.jpg", image("plain.jpg")},
                {"a.cls", "0"},
                {"b.jpg", image("plain.jpg")},
                {"c.cls", "1"},
                {"d.jpg", image("plain.jpg")},
                {"d.cls", "cat"},
                {"e.jpg", "no image"},
                {"e.cls", "0"}});
  const auto data = open("a.tar?skip=0.9");
  EXPECT_EQ(data->size(), 1);
  EXPECT_THAT(data->warnings(),
              ElementsAre(AllOf(HasSubstr("4 of 5 files"), HasSubstr("a.tar/b.jpg (has no class (.cls))"),
                                HasSubstr("a.tar/c (has no image)"), HasSubstr("a.tar/d.jpg (has a class"))));
}

TEST_F(ShardsTest, ThatAreNoneAreErrors) {
  EXPECT_THAT(problem([&] { open("none.tar"); }), HasSubstr("none.tar: cannot read"));
  EXPECT_THAT(problem([&] { open("."); }), HasSubstr("has no shards"));
  EXPECT_THAT(problem([&] { open("a-{2..1}.tar"); }), HasSubstr("{2..1}"));
  EXPECT_THAT(problem([&] { open("a-{0..999999999}.tar"); }), HasSubstr("no range"));
  put("a.tar", {{"readme", "x"}});
  EXPECT_THAT(problem([&] { open("a.tar"); }), HasSubstr("has no images"));
}

TEST_F(ShardsTest, AreLookedAtAgainWhenOneHasChanged) {
  put_two();
  EXPECT_EQ(open("train-08.tar")->size(), 2);
  put("train-08.tar", {{"a.cls", "0"}, {"a.png", image("plain.png")}});
  const auto data = open("train-08.tar");
  EXPECT_EQ(data->size(), 1);
  put("train-08.tar", {{"a.cls", "0"}, {"a.png", image("grey.png")}});
  EXPECT_NE(problem([&] { gathered<float>(*data, "input", {0}); }), "none");
}

TEST(ImageArchives, AreTheFoldersThatTheyWereMadeOf) {
  const ScratchFolder folder;
  const ArchivedFiles files{{"cats/a.jpg", image("plain.jpg")},
                            {"dogs/b.png", image("plain.png")},
                            {"dogs/c.bmp", image("plain.bmp")}};
  for (const auto& [name, content] : files) {
    fs::create_directories((folder.path() / "pets" / name).parent_path());
    write_file(folder.path() / "pets" / name, content);
  }
  const auto expected = open_dataset("images:pets", folder.path());
  ArchivedFiles below;
  for (const auto& [name, content] : files) below.emplace_back("data/pets/" + name, content);
  for (const char* name : {"pets.tar", "pets.tar.gz", "pets.zip"}) {
    write_archive(folder.path() / name, below);
    for (int times = 0; times < 2; ++times) {  // the second time with its index at hand
      const auto data = open_dataset(std::string("images:") + name + "/data/pets", folder.path());
      EXPECT_EQ(data->digest(), expected->digest()) << name;
      EXPECT_EQ(gathered<float>(*data, "input", {2, 0, 1}), gathered<float>(*expected, "input", {2, 0, 1}));
      EXPECT_EQ(gathered<std::int64_t>(*data, "labels", {2, 0, 1}), (std::vector<std::int64_t>{1, 0, 1}));
    }
  }
}

}  // namespace
}  // namespace rookery
