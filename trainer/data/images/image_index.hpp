// What a data set of images holds. Found once, by looking at every file, and kept; who opens it again reads
// that instead.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "trainer/storage/place.hpp"

namespace rookery {

struct ImageFile {
  std::int64_t label = 0;  // of its class, in the order of their names
  std::uint64_t bytes = 0;
  std::uint64_t digest = 0;  // of its content; 0 where that was not read
  std::uint64_t offset = 0;  // within a shard
  std::string path;          // below the folder, or of a shard and within it: "train-0.tar/1.jpg"
  bool operator==(const ImageFile&) const = default;
};

struct ImageIndex {
  struct Skipped {
    std::string path, reason;
    bool operator==(const Skipped&) const = default;
  };

  std::vector<std::string> classes;
  std::vector<ImageFile> images;  // by class, then by path; of shards in their order
  std::vector<Skipped> skipped;   // files that are no images
  std::int64_t most_pixels = 0;   // of an image
  std::int64_t longest_side = 0;
  std::uint64_t most_bytes = 0;  // of its file
  std::uint64_t version = 0;     // ImageStore::version() when it was made

  // Of classes, paths, sizes and contents: the same wherever the same folder lies.
  std::uint64_t digest() const;
  // Memory that it holds.
  std::int64_t bytes() const;
  bool operator==(const ImageIndex&) const = default;
};

// How a file is found to be an image: by decoding it, or by its header and its end, which is faster where
// files are large.
enum class ImageCheck : std::uint8_t { kDecode, kEnds };

class ImageStore;

// Looks at all files, on all processors. DataError when there are no images.
ImageIndex make_image_index(const ImageStore& store, ImageCheck check);

// The index that is kept in the file `kept`, where that is whole and no file has come or gone since; else a
// new one, which is kept there if that can be written.
ImageIndex open_image_index(const ImageStore& store, ImageCheck check, const std::filesystem::path& kept);
// Where it is kept: in the folder itself, or, of what is an archive or lies elsewhere, in node_data.
std::filesystem::path image_index_path(const Place& place, const std::filesystem::path& node_data,
                                       ImageCheck check);

std::string to_text(const ImageIndex& index);
// Nothing where the text is none that to_text() makes.
std::optional<ImageIndex> image_index_from(std::string_view text);

}  // namespace rookery
