// Reads data sets from files, each format in the .cpp file of its name.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>

#include "trainer/data/dataset.hpp"
#include "trainer/storage/place.hpp"

namespace rookery {

// The most that a file may inflate to.
constexpr std::uint64_t kMaxDataBytes = 4ULL << 30;
// Labels are below this, so that they and the number of classes fit everywhere.
constexpr std::int64_t kMaxClasses = 1 << 24;

// One sample a line: comma-separated finite numbers, then a label, an integer from 0. All lines
// have equally many. Values are divided by `scale`; those of a line are an image of the shape `image`,
// channels, height and width, where one is given. DataError naming file and line.
std::unique_ptr<Dataset> read_csv(const Place& place, float scale, const std::optional<Shape>& image = {},
                                  std::uint64_t max_bytes = kMaxDataBytes);

// The pair of image and label files in a folder, or several pairs that are parts of one set, in the IDX
// format (http://yann.lecun.com/exdb/mnist/): big-endian magic number, dimensions, bytes. Values are divided
// by 255. With `has_images` a sample is f32[1, height, width], else f32[pixels]. DataError naming files and
// numbers.
std::unique_ptr<Dataset> read_idx(const Place& folder, bool has_images = false,
                                  std::uint64_t max_bytes = kMaxDataBytes);

}  // namespace rookery
