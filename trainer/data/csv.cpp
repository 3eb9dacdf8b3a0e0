#include <cmath>
#include <cstring>
#include <string>
#include <string_view>

#include "models/base/error.hpp"
#include "models/base/libraries/format.hpp"
#include "models/base/parse.hpp"
#include "trainer/data/formats.hpp"
#include "trainer/data/memory_dataset.hpp"
#include "trainer/data/readers.hpp"
#include "trainer/storage/byte_source.hpp"
#include "trainer/storage/file_tree.hpp"

namespace rookery {
namespace {

constexpr std::size_t kMaxLineBytes = 64U << 20;
constexpr std::size_t kChunkBytes = 1U << 16;

// The text of a cell, short enough for a message.
std::string in_quotes(std::string_view cell) {
  constexpr std::size_t kShown = 40;
  return fmt::format("'{}{}'", cell.substr(0, kShown), cell.size() > kShown ? "…" : "");
}

class CsvReader {
 public:
  CsvReader(const Place& place, std::uint64_t max_bytes) : source_(open_file(place), max_bytes) {}

  std::unique_ptr<Dataset> read(float scale, const std::optional<Shape>& image) {
    std::string chunk(kChunkBytes, '\0');
    for (;;) {
      const std::size_t got = source_.read(std::as_writable_bytes(std::span(chunk)));
      if (got == 0) break;
      take({chunk.data(), got});
    }
    end_line();
    if (labels_.empty()) throw DataError(fmt::format("{}: has no samples", source_.name()));
    if (image && image->elements() != static_cast<std::int64_t>(columns_)) {
      throw DataError(fmt::format("{}: has {} values a line, images of {} have {}", source_.name(), columns_,
                                  image->to_string(), image->elements()));
    }
    return std::make_unique<MemoryDataset<float>>(std::move(values_), std::move(labels_), scale, image);
  }

 private:
  void take(std::string_view text) {
    for (std::size_t newline; (newline = text.find('\n')) != std::string_view::npos;) {
      line_.append(text.substr(0, newline));
      text.remove_prefix(newline + 1);
      end_line();
    }
    line_.append(text);
    if (line_.size() > kMaxLineBytes) fail(fmt::format("is longer than {} bytes", kMaxLineBytes));
  }

  void end_line() {
    ++line_number_;
    const std::string_view line = trimmed(line_);
    if (line.empty()) {
      blank_ = blank_ == 0 ? line_number_ : blank_;
    } else {
      if (blank_ != 0) fail(fmt::format("follows line {}, which is empty", blank_));
      read_line(line);
    }
    line_.clear();
  }

  void read_line(std::string_view line) {
    const std::size_t before = values_.size();
    for (std::size_t comma; (comma = line.find(',')) != std::string_view::npos;
         line.remove_prefix(comma + 1)) {
      values_.push_back(value_of(trimmed(line.substr(0, comma)), values_.size() - before));
    }
    const std::size_t columns = values_.size() - before;
    if (columns == 0) fail("has a label but no values");
    if (labels_.empty()) columns_ = columns;
    if (columns != columns_) fail(fmt::format("has {} values, the first line has {}", columns, columns_));
    labels_.push_back(label_of(trimmed(line)));
  }

  float value_of(std::string_view cell, std::size_t column) const {
    const auto value = number_from<float>(cell);
    if (!value || !std::isfinite(*value))
      fail(fmt::format("value {}: {} is not a finite number", column + 1, in_quotes(cell)));
    return *value;
  }

  std::int64_t label_of(std::string_view cell) const {
    const auto label = number_from<std::int64_t>(cell);
    if (!label || *label < 0 || *label >= kMaxClasses)
      fail(fmt::format("the label {} is not an integer from 0 to {}", in_quotes(cell), kMaxClasses - 1));
    return *label;
  }

  [[noreturn]] void fail(const std::string& what) const {
    throw DataError(fmt::format("{}: line {}: {}", source_.name(), line_number_, what));
  }

  ByteSource source_;
  std::string line_;
  std::int64_t line_number_ = 0;
  std::int64_t blank_ = 0;  // the first empty line, which only empty lines may follow
  std::size_t columns_ = 0;
  std::vector<float> values_;
  std::vector<std::int64_t> labels_;
};

// Pixels of scikit-learn's digits are from 0 to 16.
constexpr float kDigitsScale = 16;

std::unique_ptr<Dataset> open_digits(NamedOptions& options, const DataPlace& place) {
  options.expect_none_left();
  return read_csv(place.node_data / "datasets" / "digits.csv.gz", kDigitsScale);
}

std::unique_ptr<Dataset> open_csv(NamedOptions& options, const DataPlace& place) {
  const auto scale = static_cast<float>(options.number("scale", 1, 1e-30, 1e30));
  constexpr std::int64_t kMostSide = 1 << 16;
  std::optional<Shape> image;
  const bool has_image = options.has("channels") || options.has("height") || options.has("width");
  const Shape asked{options.integer("channels", 1, 1, kMostSide), options.integer("height", 1, 1, kMostSide),
                    options.integer("width", 1, 1, kMostSide)};
  if (has_image) image = asked;
  options.expect_none_left();
  return read_csv(place.where, scale, image);
}

}  // namespace

std::unique_ptr<Dataset> read_csv(const Place& place, float scale, const std::optional<Shape>& image,
                                  std::uint64_t max_bytes) {
  return CsvReader(place, max_bytes).read(scale, image);
}

DataFormat digits_format() {
  return {.name = "digits",
          .pattern = "digits$",
          .help =
              "scikit-learn's handwritten digits, which come with Rookery: `input` f32[64] from 0 "
              "to 1, `labels`",
          .open = open_digits};
}

DataFormat csv_format() {
  return {
      .name = "csv:FILE",
      .pattern = "csv:.",
      .help =
          "one sample a line, its label last: `input` f32[values], `labels`. Options: "
          "`scale=1`, which the values are divided by; `height`, `width` and `channels=1`: the values are "
          "those of images, row by row and channel after channel, f32[channels, height, width], which "
          "`augment` takes",
      .open = open_csv};
}

}  // namespace rookery
