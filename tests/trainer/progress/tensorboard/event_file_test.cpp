#include "trainer/progress/tensorboard/event_file.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <string>

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
