#include "trainer/data/images/image_index.hpp"

#include <algorithm>
#include <cstring>
#include <span>
#include <system_error>

#include "models/base/error.hpp"
#include "models/base/files/files.hpp"
#include "models/base/fnv.hpp"
#include "models/base/libraries/format.hpp"
#include "models/base/parallel.hpp"
#include "trainer/data/content_digest.hpp"
#include "trainer/data/images/image_store.hpp"
#include "trainer/images/image.hpp"

namespace rookery {
namespace {

namespace fs = std::filesystem;

constexpr std::uint64_t kMostImageBytes = 1ULL << 30;
constexpr std::uint64_t kMostIndexBytes = 4ULL << 30;

struct Looked {
  ImageSize size;
  std::string reason;  // why it is no image; a line
};

std::string in_one_line(std::string text) {
  std::ranges::replace_if(
      text, [](unsigned char letter) { return letter < ' '; }, ' ');
  return text;
}

Looked look_at_content(const std::string& content, ImageFile& image, ImageCheck check) {
  const auto bytes = std::as_bytes(std::span(content));
  image.bytes = content.size();
  const ImageSize size = image_size(bytes);
  if (check == ImageCheck::kEnds) {
    check_ends(bytes);
    return {.size = size, .reason = {}};
  }
  thread_local Image decoded;
  decode_image(bytes, {1, 1}, decoded);
  image.digest = content_digest(content);
  return {.size = size, .reason = {}};
}

Looked look_at(const ImageStore& store, ImageFile& image, ImageCheck check) {
  if (std::ranges::any_of(image.path, [](unsigned char letter) { return letter < ' '; }))
    throw DataError(fmt::format("{}: the name of a file has control characters: rename it", store.name()));
  std::string content;
  try {
    content = read_whole(*store.open(image), kMostImageBytes);
  } catch (const DataError& error) {
    // What a server does not hand out today may be an image all the same.
    if (store.is_far()) throw;
    return {.size = {}, .reason = in_one_line(error.what())};
  }
  try {
    return look_at_content(content, image, check);
  } catch (const DataError& error) {
    return {.size = {}, .reason = in_one_line(error.what())};
  }
}

// Takes those that are no images out.
void keep_images(ImageIndex& index, const std::vector<Looked>& looked) {
  std::vector<ImageFile> images;
  for (std::size_t i = 0; i < looked.size(); ++i) {
    ImageFile& image = index.images[i];
    if (!looked[i].reason.empty()) {
      index.skipped.push_back({image.path, looked[i].reason});
      continue;
    }
    const ImageSize size = looked[i].size;
    index.most_pixels = std::max(index.most_pixels, size.pixels());
    index.longest_side = std::max({index.longest_side, size.width, size.height});
    index.most_bytes = std::max(index.most_bytes, image.bytes);
    images.push_back(std::move(image));
  }
  index.images = std::move(images);
}

std::optional<ImageIndex> read_index(const fs::path& path) {
  std::error_code code;
  if (!fs::exists(path, code)) return std::nullopt;
  return image_index_from(read_file(path, kMostIndexBytes));
}

}  // namespace

std::uint64_t ImageIndex::digest() const {
  Fnv1a digest;
  for (const std::string& name : classes) digest.add(name + "\n");
  for (const ImageFile& image : images) {
    digest.add(image.path + "\n");
    for (const std::uint64_t unit : {static_cast<std::uint64_t>(image.label), image.bytes, image.digest})
      digest.add_unit(unit);
  }
  return digest.value();
}

std::int64_t ImageIndex::bytes() const {
  constexpr std::size_t kOwnText = 16;  // what a text holds without memory of its own
  const auto of_text = [](const std::string& text) {
    return text.capacity() < kOwnText ? 0 : text.capacity() + 1 + kOwnText;  // and what the heap adds
  };
  std::size_t bytes = images.capacity() * sizeof(ImageFile) + skipped.capacity() * sizeof(Skipped) +
                      classes.capacity() * sizeof(std::string);
  for (const ImageFile& image : images) bytes += of_text(image.path);
  for (const Skipped& file : skipped) bytes += of_text(file.path) + of_text(file.reason);
  for (const std::string& name : classes) bytes += of_text(name);
  return static_cast<std::int64_t>(bytes);
}

ImageIndex make_image_index(const ImageStore& store, ImageCheck check) {
  ImageIndex index = store.list();
  index.version = store.version();
  std::vector<Looked> looked(index.images.size());
  parallel_for(looked.size(), store.is_far() ? kFarFiles : 0,
               [&](std::size_t i) { looked[i] = look_at(store, index.images[i], check); });
  keep_images(index, looked);
  if (index.images.empty()) {
    throw DataError(fmt::format(
        "{}: has no images in its {} classes{}", store.name(), index.classes.size(),
        index.skipped.empty() ? std::string()
                              : fmt::format(": {}: {}", index.skipped[0].path, index.skipped[0].reason)));
  }
  return index;
}

ImageIndex open_image_index(const ImageStore& store, ImageCheck check, const fs::path& kept) {
  // What has changed in its place is found when it is read.
  if (std::optional<ImageIndex> index = read_index(kept); index && index->version == store.version())
    return std::move(*index);
  ImageIndex index = make_image_index(store, check);
  try {
    write_file(kept, to_text(index));
  } catch (const DataError&) {
    // Without it all files are looked at again the next time.
  }
  return index;
}

fs::path image_index_path(const Place& place, const fs::path& node_data, ImageCheck check) {
  const std::string name = check == ImageCheck::kDecode ? ".rookery_images" : ".rookery_images_by_ends";
  std::error_code code;
  if (place.is_plain_path() && fs::is_directory(place.outer(), code)) return place.outer() / fs::path(name);
  Fnv1a text;
  text.add(place.outer() + "\n" + place.inner());
  return node_data / fmt::format("{}_{:016x}", name, text.value());
}

}  // namespace rookery
