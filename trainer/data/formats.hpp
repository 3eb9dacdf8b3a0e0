// The formats of data sets: one row each, which settings, help, schema and open_dataset() read. A row stands
// in the file of its reader; another format is such a file and its line in the list below.
#pragma once

#include <array>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "models/base/named_options.hpp"
#include "trainer/data/dataset.hpp"
#include "trainer/storage/place.hpp"

namespace rookery {

struct DataPlace {
  Place where;  // FILE or FOLDER, below node_data or by its address; node_data where there is none
  std::filesystem::path node_data;
  ReadingSettings reading;
};

struct DataFormat {
  std::string name;     // as it is given: "sorter"; "csv:FILE", where what follows the colon is a path
  std::string pattern;  // a regular expression that fits it from its first letter on
  std::string help;     // for the documentation, as markdown
  // Reads its options and opens it. None where only a program of one's own can.
  std::unique_ptr<Dataset> (*open)(NamedOptions& options, const DataPlace& place);
};

DataFormat digits_format();
DataFormat sorter_format();
DataFormat masked_words_format();
DataFormat shapes_format();
DataFormat csv_format();
DataFormat idx_format();
DataFormat images_format();
DataFormat webdataset_format();
DataFormat numpy_format();
DataFormat tensors_format();
DataFormat tokens_format();
DataFormat own_format();
inline constexpr std::array kDataFormats{
    digits_format, sorter_format,     masked_words_format, shapes_format,  csv_format,    idx_format,
    images_format, webdataset_format, numpy_format,        tensors_format, tokens_format, own_format};

const std::vector<DataFormat>& data_formats();
// A regular expression for the names of all of them.
std::string data_pattern();
// Their names: "\"digits\", \"csv:FILE\" or \"idx:FOLDER\"".
std::string data_names(std::span<const DataFormat> formats);
// All of them as a markdown table: name, help.
std::string data_reference();

}  // namespace rookery
