#include <algorithm>
#include <array>
#include <string>

#include "models/base/error.hpp"
#include "models/base/libraries/format.hpp"
#include "trainer/data/formats.hpp"
#include "trainer/data/memory_dataset.hpp"
#include "trainer/data/readers.hpp"
#include "trainer/storage/byte_source.hpp"
#include "trainer/storage/file_tree.hpp"

namespace rookery {
namespace {

constexpr std::size_t kReadBytes = 1U << 20;

// u8 in `rank` dimensions.
constexpr std::uint32_t magic_of(std::size_t rank) {
  return 0x0800U + static_cast<std::uint32_t>(rank);
}

struct IdxFile {
  std::vector<std::uint32_t> dims;
  std::vector<std::uint8_t> bytes;
};

std::uint32_t read_big_endian(ByteSource& source) {
  std::array<std::byte, 4> bytes{};
  if (source.read(bytes) != bytes.size()) {
    throw DataError(
        fmt::format("{}: ends within its header, after {} bytes", source.name(), source.offset()));
  }
  std::uint32_t number = 0;
  for (const std::byte byte : bytes) number = number << 8 | std::to_integer<std::uint32_t>(byte);
  return number;
}

// Memory is taken as the bytes come, never on the word of the header alone.
std::vector<std::uint8_t> read_bytes(ByteSource& source, std::uint64_t count) {
  std::vector<std::uint8_t> bytes;
  while (bytes.size() < count) {
    const std::size_t before = bytes.size();
    bytes.resize(before + std::min<std::uint64_t>(kReadBytes, count - before));
    const std::size_t got = source.read(std::as_writable_bytes(std::span(bytes).subspan(before)));
    if (before + got < bytes.size()) {
      throw DataError(fmt::format("{}: holds {} values where its header says {}: an incomplete copy?",
                                  source.name(), before + got, count));
    }
  }
  std::byte extra{};
  if (source.read({&extra, 1}) != 0) {
    throw DataError(
        fmt::format("{}: holds more than the {} values that its header says", source.name(), count));
  }
  return bytes;
}

IdxFile read_idx_file(SharedFile from, std::size_t rank, std::uint64_t max_bytes) {
  ByteSource source(std::move(from), max_bytes);
  const std::uint32_t magic = read_big_endian(source);
  if (magic != magic_of(rank)) {
    throw DataError(
        fmt::format("{}: begins with {:#010x}; an IDX file of bytes in {} dimension{} begins with {:#010x}",
                    source.name(), magic, rank, rank == 1 ? "" : "s", magic_of(rank)));
  }
  IdxFile file;
  std::uint64_t count = 1;
  for (std::size_t axis = 0; axis < rank; ++axis) {
    file.dims.push_back(read_big_endian(source));
    // Both factors are below 2^32 + 1: the product cannot wrap before it is compared.
    count *= file.dims.back();
    if (count == 0 || count > source.capacity()) {
      throw DataError(
          fmt::format("{}: its header gives the dimensions {}…, the file can hold at most {} values",
                      source.name(), fmt::join(file.dims, " x "), source.capacity()));
    }
  }
  file.bytes = read_bytes(source, count);
  return file;
}

// A name with '#' in the place of each number: those of a set that is split are alike.
std::string without_numbers(std::string_view name) {
  std::string text;
  for (const char letter : name) {
    const bool is_digit = letter >= '0' && letter <= '9';
    if (!is_digit) text += letter;
    if (is_digit && !text.ends_with('#')) text += '#';
  }
  return text;
}

// What tells a part from others: the name without what every file of its kind ends in.
std::string part_of_set(const std::string& name, const std::string& ending) {
  return name.substr(0, name.rfind(ending));
}

// The files of the folder whose names end in `ending`, gzip or plain: one, or the parts of one set.
std::vector<std::string> parts_of_set(const FileTree& folder, const std::string& ending) {
  std::vector<std::string> found;
  for (const std::string& name : folder.files()) {
    const bool is_in_folder = name.find('/') == std::string::npos;
    if (is_in_folder && (name.ends_with(ending) || name.ends_with(ending + ".gz"))) found.push_back(name);
  }
  if (found.empty()) throw DataError(fmt::format("{}: has no file *{}[.gz]", folder.name(), ending));
  for (const std::string& name : found) {
    if (std::ranges::find(found, name + ".gz") != found.end())
      throw DataError(
          fmt::format("{}: is there as {}.gz, too: keep one of them", folder.name_of(name), name));
  }
  const auto is_alike = [&](const std::string& name) {
    return without_numbers(part_of_set(name, ending)) == without_numbers(part_of_set(found.front(), ending));
  };
  if (!std::ranges::all_of(found, is_alike)) {
    throw DataError(fmt::format(
        "{}: has {} files *{}[.gz] whose names differ in more than a number: {}; keep those of one "
        "set in a folder of their own",
        folder.name(), found.size(), ending, fmt::join(found, ", ")));
  }
  return found;
}

// A set under construction, of which further parts are to have images of the same size.
struct IdxSet {
  std::vector<std::uint32_t> dims;  // of the first part
  std::vector<std::uint8_t> pixels;
  std::vector<std::int64_t> labels;

  void add(const FileTree& folder, const std::string& images_name, const std::string& labels_name,
           std::uint64_t max_bytes) {
    IdxFile images = read_idx_file(folder.open(images_name), 3, max_bytes - pixels.size());
    const IdxFile more = read_idx_file(folder.open(labels_name), 1, max_bytes);
    if (images.dims[0] != more.dims[0]) {
      throw DataError(fmt::format("{}: {} images, but {} labels in {}", folder.name_of(images_name),
                                  images.dims[0], more.dims[0], folder.name_of(labels_name)));
    }
    if (dims.empty()) dims = images.dims;
    if (images.dims[1] != dims[1] || images.dims[2] != dims[2]) {
      throw DataError(fmt::format("{}: has images of {} x {}, the first part of the set of {} x {}",
                                  folder.name_of(images_name), images.dims[1], images.dims[2], dims[1],
                                  dims[2]));
    }
    if (pixels.empty()) {
      pixels = std::move(images.bytes);
    } else {
      pixels.insert(pixels.end(), images.bytes.begin(), images.bytes.end());
    }
    labels.insert(labels.end(), more.bytes.begin(), more.bytes.end());
  }
};

std::unique_ptr<Dataset> open_idx(NamedOptions& options, const DataPlace& place) {
  const bool has_images = options.integer("image", 0, 0, 1) == 1;
  options.expect_none_left();
  return read_idx(place.where, has_images);
}

}  // namespace

std::unique_ptr<Dataset> read_idx(const Place& place, bool has_images, std::uint64_t max_bytes) {
  const std::unique_ptr<FileTree> folder = open_tree(place);
  const std::string of_images = "images-idx3-ubyte", of_labels = "labels-idx1-ubyte";
  const std::vector<std::string> images = parts_of_set(*folder, of_images);
  const std::vector<std::string> labels = parts_of_set(*folder, of_labels);
  const auto belong_together = [&](const std::string& image, const std::string& label) {
    return images.size() == 1 || part_of_set(image, of_images) == part_of_set(label, of_labels);
  };
  if (!std::ranges::equal(images, labels, belong_together)) {
    throw DataError(fmt::format("{}: {} files of images ({}), but {} of labels ({})", folder->name(),
                                images.size(), fmt::join(images, ", "), labels.size(),
                                fmt::join(labels, ", ")));
  }
  IdxSet set;
  for (std::size_t i = 0; i < images.size(); ++i) set.add(*folder, images[i], labels[i], max_bytes);
  const std::optional<Shape> image =
      has_images ? std::optional(Shape{1, set.dims[1], set.dims[2]}) : std::nullopt;
  return std::make_unique<MemoryDataset<std::uint8_t>>(std::move(set.pixels), std::move(set.labels), 255.0F,
                                                       image);
}

DataFormat idx_format() {
  return {.name = "idx:FOLDER",
          .pattern = "idx:.",
          .help =
              "a folder's pair of IDX files `*images-idx3-ubyte[.gz]` and `*labels-"
              "idx1-ubyte[.gz]`, or several pairs whose names differ in a number alone, which follow each "
              "other in the order of their names: `input` f32[pixels] from 0 to 1, `labels`. Options: "
              "`image=0`, with 1 "
              "`input` is f32[1, height, width], which `augment` takes",
          .open = open_idx};
}

}  // namespace rookery
