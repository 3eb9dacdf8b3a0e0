#include "trainer/progress/tensorboard/event_file.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "models/base/error.hpp"
#include "tests/support/captured_log.hpp"
#include "tests/support/failing_files.hpp"
#include "tests/support/scratch_folder.hpp"
#include "tests/trainer/progress/tensorboard/events_in.hpp"

namespace rookery {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::Pair;

std::uint32_t unmasked(std::uint32_t masked) {
  const std::uint32_t turned = masked - 0xa282ead8U;
  return turned >> 17 | turned << 15;
}

// RFC 3720, B.4, and the check value of the catalogue of parametrised CRC algorithms.
TEST(EventFile, ChecksumsAreCrc32C) {
  EXPECT_EQ(unmasked(masked_crc(std::string(32, '\0'))), 0x8a9136aaU);
  EXPECT_EQ(unmasked(masked_crc(std::string(32, '\xff'))), 0x62a8ab43U);
  EXPECT_EQ(unmasked(masked_crc("123456789")), 0xe3069283U);
}

// The bytes by the definition of the format, not by our reader.
TEST(EventFile, BeginsAsTensorBoardExpects) {
  const ScratchFolder folder;
  const EventFile file(folder.path(), 0);
  const std::string bytes = read_file(file.path(), 1000);
  EXPECT_EQ(little_endian<std::uint64_t>(bytes), 9 + 2 + 13U);  // wall_time, and a text of 13 bytes
  EXPECT_EQ(bytes.substr(12, 1), "\x09");                       // field 1, a double
  EXPECT_EQ(bytes.substr(12 + 9, 15),
            "\x1a\x0d"  // field 3, bytes
            "brain.Event:2");
}

TEST(EventFile, HasWhatWasWritten) {
  const ScratchFolder folder;
  EventFile file(folder.path(), 7);
  file.write_scalars(7, {{"loss/train", 0.1F}, {"learning_rate", 1e-3F}});
  file.write_text(8, "train.json", "{}");
  file.flush();
  const std::vector<tensorboard::Event> events = events_in(file.path());
  ASSERT_EQ(events.size(), 4);
  EXPECT_EQ(events[1].session_log().status(), tensorboard::SessionLog::START);
  EXPECT_EQ(events[1].step(), 7);
  const double now =
      std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
  EXPECT_NEAR(events[2].wall_time(), now, 60);
  EXPECT_THAT(curves_in(file.path()), ElementsAre(Pair("learning_rate", ElementsAre(Pair(7, 1e-3F))),
                                                  Pair("loss/train", ElementsAre(Pair(7, 0.1F)))));
  EXPECT_EQ(events[3].step(), 8);
  const tensorboard::Summary::Value& text = events[3].summary().value(0);
  EXPECT_EQ(text.metadata().plugin_data().plugin_name(), "text");
  EXPECT_THAT(text.tensor().string_val(), ElementsAre("{}"));
}

// A picture of 3 by 2 pixels, as far as it is looked at.
std::string png_begin() {
  return std::string("\x89PNG\r\n\x1a\n\0\0\0\x0dIHDR\0\0\0\3\0\0\0\2", 24);
}

TEST(EventFile, HasImagesWithTheirSizes) {
  const ScratchFolder folder;
  CapturedLog told;
  EventFile file(folder.path(), 0);
  file.write_image(5, "plan", png_begin() + "and so on");
  file.write_image(5, "none", "<svg/>");
  file.write_image(5, "huge", png_begin() + std::string(1U << 20, 'x'));
  file.write_scalars(6, {{"loss/train", 0.1F}});
  file.flush();
  const std::vector<tensorboard::Event> events = events_in(file.path());
  ASSERT_EQ(events.size(), 2 + 2);
  const tensorboard::Summary::Value& value = events[2].summary().value(0);
  EXPECT_EQ(value.tag(), "plan");
  EXPECT_EQ(events[2].step(), 5);
  EXPECT_EQ(value.image().width(), 3);
  EXPECT_EQ(value.image().height(), 2);
  EXPECT_EQ(value.image().encoded_image_string(), png_begin() + "and so on");
  EXPECT_THAT(told.lines(),
              ElementsAre(HasSubstr("the image none is no PNG file"), HasSubstr("huge has 1048600 bytes")));
}

TEST(EventFile, HistogramsHaveTheirNumbersInBuckets) {
  const ScratchFolder folder;
  EventFile file(folder.path(), 0);
  const float infinity = std::numeric_limits<float>::infinity();
  file.write_histogram(4, "weights/a", std::vector<float>{-1, 0, 0.05F, 2, infinity, std::nanf("")});
  file.write_histogram(4, "weights/same", std::vector<float>{3, 3});
  file.write_histogram(4, "weights/none", std::vector<float>{infinity});
  file.flush();
  const std::vector<tensorboard::Event> events = events_in(file.path());
  ASSERT_EQ(events.size(), 2 + 2) << "none of what has no numbers";
  const tensorboard::Histogram& histogram = events[2].summary().value(0).histo();
  EXPECT_EQ(events[2].step(), 4);
  EXPECT_EQ(histogram.min(), -1);
  EXPECT_EQ(histogram.max(), 2);
  EXPECT_EQ(histogram.num(), 4);
  EXPECT_NEAR(histogram.sum(), 1.05, 1e-6);
  EXPECT_NEAR(histogram.sum_squares(), 5.0025, 1e-6);
  ASSERT_EQ(histogram.bucket_size(), 30);
  ASSERT_EQ(histogram.bucket_limit_size(), 30);
  EXPECT_NEAR(histogram.bucket_limit(0), -0.9, 1e-12);
  EXPECT_EQ(histogram.bucket_limit(29), 2);
  std::vector<double> expected(30);
  expected[0] = expected[29] = 1;
  expected[10] = 2;  // from 0 to 0.1
  EXPECT_THAT(histogram.bucket(), testing::ElementsAreArray(expected));
  EXPECT_EQ(events[3].summary().value(0).histo().bucket(0), 2);
}

// By name, which is how TensorBoard orders them, though all are made within a second.
TEST(EventFile, ALaterFileComesLater) {
  const ScratchFolder folder;
  const EventFile first(folder.path(), 0);
  const EventFile second(folder.path(), 0);
  const EventFile third(folder.path(), 0);
  EXPECT_THAT(event_files(folder.path()), ElementsAre(first.path(), second.path(), third.path()));
}

TEST(EventFile, FoldersThatAreNotThereAreNamed) {
  EXPECT_THROW(EventFile("/nowhere/at/all", 0), DataError);
}

TEST(EventFile, OnAFullDiskEventsWaitForRoom) {
  const ScratchFolder folder;
  CapturedLog told;
  FailingFiles disk;
  EventFile file(folder.path(), 0);
  file.write_scalars(1, {{"loss/train", 1.0F}});
  file.flush();
  disk.room = 20;
  file.write_scalars(2, {{"loss/train", 2.0F}});
  file.flush();
  EXPECT_THAT(curves_in(file.path())["loss/train"], ElementsAre(Pair(1, 1.0F))) << "no half record";
  file.flush();
  disk.room = FailingFiles::kUnlimited;
  file.write_scalars(3, {{"loss/train", 3.0F}});
  file.flush();
  EXPECT_THAT(curves_in(file.path())["loss/train"], ElementsAre(Pair(1, 1.0F), Pair(2, 2.0F), Pair(3, 3.0F)));
  EXPECT_THAT(told.lines(),
              ElementsAre(HasSubstr("cannot write: No space left on device: training goes on")));
}

TEST(EventFile, WhatWaitsIsBounded) {
  const ScratchFolder folder;
  CapturedLog told;
  std::filesystem::path path;
  {
    FailingFiles disk;
    EventFile file(folder.path(), 0);
    path = file.path();
    disk.room = 0;
    for (int i = 0; i < 100; ++i) file.write_text(i, "text", std::string(1U << 16, 'x'));
    disk.room = FailingFiles::kUnlimited;
  }
  EXPECT_EQ(events_in(path).size(), 2 + 15);
  EXPECT_LE(std::filesystem::file_size(path), 1U << 20);
  EXPECT_THAT(told.lines().back(), HasSubstr("lacks its last events"));
}

}  // namespace
}  // namespace rookery
