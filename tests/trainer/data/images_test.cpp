// Folders of images as data sets.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <numeric>

#include "models/base/error.hpp"
#include "models/base/files/files.hpp"
#include "models/io/safetensors/safetensors.hpp"
#include "tests/support/gathered.hpp"
#include "tests/support/problem.hpp"
#include "tests/support/repository.hpp"
#include "tests/support/scratch_folder.hpp"
#include "trainer/data/dataset.hpp"
#include "trainer/data/images/image_index.hpp"

namespace rookery {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
namespace fs = std::filesystem;

class ImagesTest : public testing::Test {
 protected:
  ImagesTest() {
    put("pets/cats/b.png", "plain.png");
    put("pets/cats/a.jpg", "plain.jpg");
    put("pets/dogs/young/c.webp", "lossy.webp");
    put("pets/dogs/d.bmp", "plain.bmp");
  }

  fs::path path(const std::string& name) const { return folder_.path() / name; }
  void put(const std::string& name, const std::string& image) const {
    fs::create_directories(path(name).parent_path());
    fs::copy_file(kGolden / "images" / image, path(name), fs::copy_options::overwrite_existing);
  }
  void put_text(const std::string& name, const std::string& text) const { write_file(path(name), text); }
  std::unique_ptr<Dataset> open(const std::string& options = "", std::int64_t cache_mib = 0) const {
    return open_dataset("images:pets" + options, folder_.path(), {.cache_mib = cache_mib});
  }
  std::string index_text() const {
    return read_file(image_index_path(path("pets"), folder_.path(), ImageCheck::kDecode), 1 << 20);
  }

  ScratchFolder folder_;
};

// What Pillow makes of an image, channel after channel from 0 to 1.
std::vector<float> pillows(const std::string& key, std::size_t channels) {
  static const StateDict golden = read_safetensors(kGolden / "images.safetensors").tensors;
  const auto pixels = golden.at(key).as<std::uint8_t>();
  std::vector<float> values(pixels.size());
  for (std::size_t i = 0; i < pixels.size(); ++i)
    values[i % channels * (pixels.size() / channels) + i / channels] = static_cast<float>(pixels[i]) / 255.0F;
  return values;
}

TEST_F(ImagesTest, AreSamplesByClassAndPathOfOneSize) {
  const auto pets = open("?size=16");
  ASSERT_EQ(pets->size(), 4);
  EXPECT_EQ(pets->tensors().at("input"), (TensorType{DType::kF32, {kBatch, 3, 16, 16}}));
  EXPECT_THAT(gathered<std::int64_t>(*pets, "labels", {3, 0, 1, 2}), ElementsAre(1, 0, 0, 1));
  EXPECT_THAT(gathered<float>(*pets, "answers", {2, 0}), ElementsAre(1, 0));
  std::vector<float> expected = pillows("lossy.webp.16x16", 3);
  const std::vector<float> first = pillows("plain.jpg.16x16", 3);
  expected.insert(expected.end(), first.begin(), first.end());
  EXPECT_EQ(gathered<float>(*pets, "input", {3, 0}), expected) << "dogs/d.bmp is before dogs/young";
  EXPECT_TRUE(pets->warnings().empty());
}

TEST_F(ImagesTest, MayBeGreyAndOfMoreClasses) {
  put("pets/birds/e.png", "grey.png");
  const auto pets = open("?size=45&colour=grey");
  EXPECT_EQ(pets->tensors().at("input"), (TensorType{DType::kF32, {kBatch, 1, 45, 45}}));
  EXPECT_FALSE(pets->tensors().contains("answers"));
  EXPECT_THAT(gathered<std::int64_t>(*pets, "labels", {0, 1, 4}), ElementsAre(0, 1, 2));
}

TEST_F(ImagesTest, MayHaveTargetsOfProbabilities) {
  put("pets/birds/e.png", "grey.png");
  EXPECT_THAT(gathered<float>(*open("?probabilities=1"), "probabilities", {4, 0}),
              ElementsAre(0, 0, 1, 1, 0, 0));
  EXPECT_FALSE(open()->tensors().contains("probabilities"));
}

TEST_F(ImagesTest, FilesThatAreNoneAreLeftOutAndListed) {
  for (int i = 0; i < 9; ++i) put("pets/cats/more" + std::to_string(i) + ".png", "grey.png");
  put_text("pets/cats/notes.txt", "milk, eggs");
  put_text("pets/dogs/cut.jpg", read_file(kGolden / "images/plain.jpg", 1 << 20).substr(0, 900));
  put_text("pets/readme.txt", "of no class");
  for (const char* check : {"decode", "ends"}) {
    const auto pets = open(std::string("?skip=0.2&check=") + check);
    EXPECT_EQ(pets->size(), 13) << check;
    EXPECT_THAT(pets->warnings(),
                ElementsAre(AllOf(HasSubstr("2 of 15 files"), HasSubstr("cats/notes.txt (does not begin as"),
                                  HasSubstr("dogs/cut.jpg (JPEG: "), HasSubstr(".rookery_images"))));
  }
  EXPECT_THAT(index_text(), HasSubstr("skipped cats/notes.txt\tdoes not begin"));
  EXPECT_THAT(problem([&] { open("?skip=0.1"); }),
              AllOf(HasSubstr("2 of 15 files"), HasSubstr("share of 0.1"), HasSubstr("skip=0.14")));
}

TEST_F(ImagesTest, AFolderThatIsNoDataSetIsAnErrorThatSaysWhatOneIs) {
  EXPECT_THAT(problem([&] { open_dataset("images:birds", folder_.path()); }), HasSubstr("is no folder"));
  fs::create_directories(path("birds"));
  EXPECT_THAT(problem([&] { open_dataset("images:birds", folder_.path()); }),
              HasSubstr("one for each class"));
  fs::create_directories(path("birds/owls"));
  EXPECT_THAT(problem([&] { open_dataset("images:birds", folder_.path()); }), HasSubstr("has no images"));
  put_text("birds/owls/a.jpg", "");
  EXPECT_THAT(problem([&] { open_dataset("images:birds", folder_.path()); }),
              HasSubstr("owls/a.jpg: is empty"));
  EXPECT_THAT(problem([&] { open("?colour=red"); }), HasSubstr("rgb, grey"));
  EXPECT_THAT(problem([&] { open("?colours=grey"); }), HasSubstr("colour"));
}

TEST_F(ImagesTest, TheIndexIsMadeOnceAndAgainWhenFilesComeOrGo) {
  const std::uint64_t digest = open()->digest();
  // An index that is at hand is believed: here, that there is an image less.
  ImageIndex index = *image_index_from(index_text());
  index.images.pop_back();
  put_text("pets/.rookery_images", to_text(index));
  EXPECT_EQ(open()->size(), 3);
  EXPECT_NE(open()->digest(), digest);
  put("pets/cats/new.png", "grey.png");
  EXPECT_EQ(open()->size(), 5);
  fs::remove(path("pets/cats/new.png"));
  EXPECT_EQ(open()->digest(), digest);
  put("pets/birds/e.png", "grey.png");
  EXPECT_EQ(open()->size(), 5) << "a class more";
}

TEST_F(ImagesTest, AnIndexThatIsDamagedIsMadeAnew) {
  const std::uint64_t digest = open()->digest();
  const std::string whole = index_text();
  for (const std::string& text : {std::string(), whole.substr(0, whole.size() / 2), whole + "x",
                                  std::string(whole).replace(whole.find("cats/a"), 6, "cats/c")}) {
    EXPECT_FALSE(image_index_from(text)) << text;
    put_text("pets/.rookery_images", text);
    EXPECT_EQ(open()->digest(), digest);
    EXPECT_EQ(index_text(), whole);
  }
}

TEST_F(ImagesTest, TheDigestIsThatOfEveryCopyAndOfNoOther) {
  const std::uint64_t digest = open()->digest();
  fs::copy(path("pets"), path("copy"), fs::copy_options::recursive);
  const auto digest_of_copy = [&] {
    fs::remove(path("copy/.rookery_images"));
    return open_dataset("images:copy", folder_.path())->digest();
  };
  EXPECT_EQ(digest_of_copy(), digest);
  put("copy/cats/a.jpg", "grey.jpg");
  EXPECT_NE(digest_of_copy(), digest);
  put("copy/cats/a.jpg", "plain.jpg");
  EXPECT_EQ(digest_of_copy(), digest);
  fs::rename(path("copy/cats/a.jpg"), path("copy/cats/aa.jpg"));
  EXPECT_NE(digest_of_copy(), digest);
}

TEST_F(ImagesTest, AFileThatHasChangedSinceIsAnErrorThatNamesIt) {
  const auto pets = open();
  std::string content = read_file(path("pets/dogs/d.bmp"), 1 << 20);
  content.back() = static_cast<char>(content.back() ^ 1);
  put_text("pets/dogs/d.bmp", content);
  EXPECT_NO_THROW(gathered<float>(*pets, "input", {0}));
  EXPECT_THAT(problem([&] {
                gathered<float>(*pets, "input", {0, 2});
              }),
              AllOf(HasSubstr("dogs/d.bmp: has changed since"), HasSubstr("clusterize")));
}

TEST_F(ImagesTest, WhatIsInTheCacheIsNotReadAgain) {
  const auto cached = open("", 1);
  const auto read = open();
  const std::vector<float> values = gathered<float>(*cached, "input", {0, 1, 2, 3});
  EXPECT_EQ(values, gathered<float>(*read, "input", {0, 1, 2, 3}));
  EXPECT_EQ(cached->most_bytes() - read->most_bytes(), 4 * (3 * 32 * 32 + 1));
  fs::remove_all(path("pets"));
  EXPECT_EQ(gathered<float>(*cached, "input", {0, 1, 2, 3}), values);
  EXPECT_THROW(gathered<float>(*read, "input", {0}), DataError);
}

}  // namespace
}  // namespace rookery
