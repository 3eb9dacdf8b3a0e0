// What a folder of images holds: one sub-folder a class, with all that lies below it. Found once, by looking
// at every file, and kept beside the images; who opens the folder again reads that instead.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace rookery {

struct ImageFile {
  std::int64_t label = 0;  // of its class, in the order of their names
  std::uint64_t bytes = 0;
  std::uint64_t digest = 0;  // of its content; 0 where that was not read
  std::string path;          // below the folder
  bool operator==(const ImageFile&) const = default;
};

struct ImageIndex {
  struct Folder {
    std::string path;          // below the folder of images
    std::int64_t changed = 0;  // when a file last came or went, in nanoseconds
    bool operator==(const Folder&) const = default;
  };
  struct Skipped {
    std::string path, reason;
    bool operator==(const Skipped&) const = default;
  };

  std::vector<std::string> classes;
  std::vector<Folder> folders;    // the classes' and those below them
  std::vector<ImageFile> images;  // by class, then by path
  std::vector<Skipped> skipped;   // files that are no images
  std::int64_t most_pixels = 0;   // of an image
  std::int64_t longest_side = 0;
  std::uint64_t most_bytes = 0;  // of its file

  // Of classes, paths, sizes and contents: the same wherever the same folder lies.
  std::uint64_t digest() const;
  // Memory that it holds.
  std::int64_t bytes() const;
  bool operator==(const ImageIndex&) const = default;
};

// How a file is found to be an image: by decoding it, or by its header and its end, which is faster where
// files are large.
enum class ImageCheck : std::uint8_t { kDecode, kEnds };

// Looks at all files, on all processors. DataError when there is no such folder, or it has no classes or no
// images.
ImageIndex make_image_index(const std::filesystem::path& folder, ImageCheck check);

// The index that is kept beside the images, where that is whole and no file has come or gone since; else a
// new one, which is kept there if the folder can be written to.
ImageIndex open_image_index(const std::filesystem::path& folder, ImageCheck check);
// Where it is kept.
std::filesystem::path image_index_path(const std::filesystem::path& folder, ImageCheck check);

std::string to_text(const ImageIndex& index);
// Nothing where the text is none that to_text() makes.
std::optional<ImageIndex> image_index_from(std::string_view text);

// Of a file's content.
std::uint64_t content_digest(std::string_view content);

}  // namespace rookery
