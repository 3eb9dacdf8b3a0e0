// The formats of data sets: one row each, which settings, help, schema and open_dataset() read. A row stands
// in the file of its reader; another format is such a file and its line in the list below.
#pragma once

#include <array>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "models/base/named_options.hpp"
#include "trainer/data/dataset.hpp"

namespace rookery {

struct DataFormat {
  std::string name;     // as it is given: "sorter"; "csv:FILE", where what follows the colon is a path
  std::string pattern;  // a regular expression that fits it from its first letter on
  std::string help;     // for the documentation, as markdown
  // Reads its options and opens it. `path`: FILE or FOLDER below node_data; node_data where there is none.
  // None where only a program of one's own can.
  std::unique_ptr<Dataset> (*open)(NamedOptions& options, const std::filesystem::path& path);
};

DataFormat digits_format();
DataFormat sorter_format();
DataFormat masked_words_format();
DataFormat shapes_format();
DataFormat csv_format();
DataFormat idx_format();
DataFormat tensors_format();
DataFormat own_format();
inline constexpr std::array kDataFormats{digits_format, sorter_format, masked_words_format, shapes_format,
                                         csv_format,    idx_format,    tensors_format,      own_format};

const std::vector<DataFormat>& data_formats();
// A regular expression for the names of all of them.
std::string data_pattern();
// Their names: "\"digits\", \"csv:FILE\" or \"idx:FOLDER\"".
std::string data_names(std::span<const DataFormat> formats);
// All of them as a markdown table: name, help.
std::string data_reference();

// The most that a file may inflate to.
constexpr std::uint64_t kMaxDataBytes = 4ULL << 30;
// Labels are below this, so that they and the number of classes fit everywhere.
constexpr std::int64_t kMaxClasses = 1 << 24;

// One sample a line: comma-separated finite numbers, then a label, an integer from 0. All lines
// have equally many. Values are divided by `scale`. DataError naming file and line.
std::unique_ptr<Dataset> read_csv(const std::filesystem::path& path, float scale,
                                  std::uint64_t max_bytes = kMaxDataBytes);

// The one pair of image and label files in a folder, in the IDX format
// (http://yann.lecun.com/exdb/mnist/): big-endian magic number, dimensions, bytes. Values are
// divided by 255. DataError naming files and numbers.
std::unique_ptr<Dataset> read_idx(const std::filesystem::path& folder,
                                  std::uint64_t max_bytes = kMaxDataBytes);

// A safetensors file, each of whose tensors has the samples along its first dimension. DataError naming the
// file and a tensor that has none or another number of them, or a sample with a number that is not finite.
std::unique_ptr<Dataset> read_tensors(const std::filesystem::path& path);

}  // namespace rookery
