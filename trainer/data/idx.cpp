#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <string>
#include <system_error>

#include "models/base/error.hpp"
#include "trainer/data/byte_source.hpp"
#include "trainer/data/formats.hpp"
#include "trainer/data/memory_dataset.hpp"
#include "trainer/data/readers.hpp"

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
        fmt::format("{}: ends within its header, after {} bytes", source.path().string(), source.offset()));
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
                                  source.path().string(), before + got, count));
    }
  }
  std::byte extra{};
  if (source.read({&extra, 1}) != 0) {
    throw DataError(
        fmt::format("{}: holds more than the {} values that its header says", source.path().string(), count));
  }
  return bytes;
}

IdxFile read_idx_file(const std::filesystem::path& path, std::size_t rank, std::uint64_t max_bytes) {
  ByteSource source(path, max_bytes);
  const std::uint32_t magic = read_big_endian(source);
  if (magic != magic_of(rank)) {
    throw DataError(
        fmt::format("{}: begins with {:#010x}; an IDX file of bytes in {} dimension{} begins with {:#010x}",
                    path.string(), magic, rank, rank == 1 ? "" : "s", magic_of(rank)));
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
                      path.string(), fmt::join(file.dims, " x "), source.capacity()));
    }
  }
  file.bytes = read_bytes(source, count);
  return file;
}

// The folder's only file whose name ends in `ending`, gzip or plain.
std::filesystem::path only_file(const std::filesystem::path& folder, const std::string& ending) {
  std::vector<std::string> found;
  std::error_code code;
  for (std::filesystem::directory_iterator entry(folder, code), end; !code && entry != end;
       entry.increment(code)) {
    const std::string name = entry->path().filename().string();
    if (name.ends_with(ending) || name.ends_with(ending + ".gz")) found.push_back(name);
  }
  if (code) throw DataError(fmt::format("{}: cannot read the folder: {}", folder.string(), code.message()));
  std::ranges::sort(found);
  if (found.empty()) throw DataError(fmt::format("{}: has no file *{}[.gz]", folder.string(), ending));
  if (found.size() > 1) {
    throw DataError(
        fmt::format("{}: has {} files *{}[.gz]: {}; keep the one to be used in a folder of its own",
                    folder.string(), found.size(), ending, fmt::join(found, ", ")));
  }
  return folder / found.front();
}

std::unique_ptr<Dataset> open_idx(NamedOptions& options, const DataPlace& place) {
  options.expect_none_left();
  return read_idx(place.path);
}

}  // namespace

std::unique_ptr<Dataset> read_idx(const std::filesystem::path& folder, std::uint64_t max_bytes) {
  const std::filesystem::path images_path = only_file(folder, "images-idx3-ubyte");
  const std::filesystem::path labels_path = only_file(folder, "labels-idx1-ubyte");
  IdxFile images = read_idx_file(images_path, 3, max_bytes);
  const IdxFile labels = read_idx_file(labels_path, 1, max_bytes);
  if (images.dims[0] != labels.dims[0]) {
    throw DataError(fmt::format("{}: {} images, but {} labels in {}", images_path.string(), images.dims[0],
                                labels.dims[0], labels_path.string()));
  }
  return std::make_unique<MemoryDataset<std::uint8_t>>(
      std::move(images.bytes), std::vector<std::int64_t>(labels.bytes.begin(), labels.bytes.end()), 255.0F);
}

DataFormat idx_format() {
  return {.name = "idx:FOLDER",
          .pattern = "idx:.",
          .help =
              "a folder's one pair of IDX files `*images-idx3-ubyte[.gz]` and `*labels-"
              "idx1-ubyte[.gz]`: `input` f32[pixels] from 0 to 1, `labels`",
          .open = open_idx};
}

}  // namespace rookery
