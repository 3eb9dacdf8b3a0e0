// The events of a file, for tests: each record's length and checksums are checked.
#pragma once

#include <gtest/gtest.h>
#include <tensorboard_events.pb.h>

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "models/base/files/files.hpp"
#include "trainer/progress/tensorboard/event_file.hpp"

namespace rookery {

template <typename Number>
Number little_endian(std::string_view bytes) {
  Number number = 0;
  for (std::size_t i = sizeof number; i-- > 0;)
    number = static_cast<Number>(number << 8) | static_cast<unsigned char>(bytes.at(i));
  return number;
}

inline std::vector<tensorboard::Event> events_in(const std::filesystem::path& path) {
  const std::string bytes = read_file(path, 1U << 30);
  std::string_view rest = bytes;
  std::vector<tensorboard::Event> events;
  while (rest.size() >= 12) {
    const auto length = little_endian<std::uint64_t>(rest);
    EXPECT_EQ(little_endian<std::uint32_t>(rest.substr(8)), masked_crc(rest.substr(0, 8)));
    if (rest.size() < 16 + length) break;
    const std::string_view event = rest.substr(12, length);
    EXPECT_EQ(little_endian<std::uint32_t>(rest.substr(12 + length)), masked_crc(event));
    EXPECT_TRUE(events.emplace_back().ParseFromArray(event.data(), static_cast<int>(event.size())));
    rest.remove_prefix(16 + length);
  }
  EXPECT_TRUE(rest.empty()) << "half a record";
  return events;
}

// By tag: steps and values.
using Curves = std::map<std::string, std::vector<std::pair<std::int64_t, float>>>;

inline Curves curves_in(const std::filesystem::path& path) {
  Curves curves;
  for (const tensorboard::Event& event : events_in(path)) {
    for (const auto& value : event.summary().value())
      if (value.has_simple_value()) curves[value.tag()].emplace_back(event.step(), value.simple_value());
  }
  return curves;
}

// The event files of a folder, in the order of their names.
inline std::vector<std::filesystem::path> event_files(const std::filesystem::path& folder) {
  std::vector<std::filesystem::path> files;
  for (const auto& entry : std::filesystem::directory_iterator(folder))
    if (entry.path().filename().string().starts_with("events.out.tfevents.")) files.push_back(entry.path());
  std::ranges::sort(files);
  return files;
}

}  // namespace rookery
