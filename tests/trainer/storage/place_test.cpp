// What a place is, from its text alone.
#include "trainer/storage/place.hpp"

#include <gtest/gtest.h>

#include "models/base/files/files.hpp"
#include "tests/support/scratch_folder.hpp"

namespace rookery {
namespace {

using Kind = Place::Kind;

TEST(PlaceTest, AnAddressIsTakenAsItIsAndAPathIsBelowTheFolder) {
  const Place bucket = Place::below("/data", "s3://bucket/pets");
  EXPECT_EQ(bucket.kind(), Kind::kS3);
  EXPECT_EQ(bucket.outer(), "s3://bucket/pets");
  EXPECT_EQ(Place::below("/data", "http://host/a.csv").kind(), Kind::kHttp);
  const Place path = Place::below("/data", "a.csv");
  EXPECT_EQ(path.kind(), Kind::kLocal);
  EXPECT_EQ(path.outer(), "/data/a.csv");
  EXPECT_TRUE(path.is_plain_path());
  EXPECT_FALSE(bucket.is_plain_path());
}

TEST(PlaceTest, WhatFollowsAnArchiveIsWithinIt) {
  const Place place = Place::of_address("s3://bucket/pets.tar.gz/train/");
  EXPECT_EQ(place.outer(), "s3://bucket/pets.tar.gz");
  EXPECT_EQ(place.inner(), "train");
  EXPECT_TRUE(place.is_archive());
  EXPECT_EQ(Place::of_address("https://pets.zip/a.csv").inner(), "") << "that is its host";
  EXPECT_EQ(Place::of_address("https://host/a.zip/b.zip").inner(), "b.zip");
}

TEST(PlaceTest, OfPathsOnlyFilesAreArchives) {
  const ScratchFolder folder;
  std::filesystem::create_directories(folder.path() / "a.tar");
  write_file(folder.path() / "b.tar", "");
  EXPECT_EQ(Place(folder.path() / "a.tar" / "c").inner(), "");
  EXPECT_EQ(Place(folder.path() / "b.tar" / "c").inner(), "c");
  EXPECT_EQ(Place(folder.path() / "none.tar" / "c").inner(), "");
}

TEST(PlaceTest, SecretsOfAnAddressAreNotShown) {
  const Place place = Place::of_address("https://me:secret@host/pets.zip/cats?signature=12/3");
  EXPECT_EQ(place.outer(), "https://me:secret@host/pets.zip?signature=12/3");
  EXPECT_EQ(place.inner(), "cats");
  EXPECT_EQ(place.shown(), "https://host/pets.zip");
  EXPECT_EQ(Place::of_address("https://host/a@b.csv").shown(), "https://host/a@b.csv");
}

}  // namespace
}  // namespace rookery
