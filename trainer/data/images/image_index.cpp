#include "trainer/data/images/image_index.hpp"

#include <fmt/format.h>
#include <sys/stat.h>

#include <algorithm>
#include <cstring>
#include <mutex>
#include <numeric>
#include <span>
#include <system_error>

#include "models/base/error.hpp"
#include "models/base/files/files.hpp"
#include "models/base/fnv.hpp"
#include "models/base/parallel.hpp"
#include "trainer/images/image.hpp"

namespace rookery {
namespace {

namespace fs = std::filesystem;

constexpr std::uint64_t kMostImageBytes = 1ULL << 30;
constexpr std::uint64_t kMostIndexBytes = 4ULL << 30;

std::int64_t changed_at(const fs::path& folder) {
  struct stat status {};
  if (stat(folder.c_str(), &status) != 0)
    throw DataError(fmt::format("{}: cannot read: {}", folder.string(), std::strerror(errno)));
  return status.st_mtim.tv_sec * 1'000'000'000LL + status.st_mtim.tv_nsec;
}

std::vector<fs::directory_entry> entries_of(const fs::path& folder) {
  std::error_code code;
  std::vector<fs::directory_entry> entries;
  for (fs::directory_iterator entry(folder, code), end; !code && entry != end; entry.increment(code)) {
    if (!entry->path().filename().string().starts_with('.')) entries.push_back(*entry);
  }
  if (code) throw DataError(fmt::format("{}: cannot read: {}", folder.string(), code.message()));
  std::ranges::sort(entries, {}, [](const fs::directory_entry& entry) { return entry.path().filename(); });
  return entries;
}

std::vector<std::string> classes_in(const fs::path& folder) {
  std::vector<std::string> classes;
  for (const fs::directory_entry& entry : entries_of(folder)) {
    if (entry.is_directory()) classes.push_back(entry.path().filename().string());
  }
  return classes;
}

// Lists what lies below the folder, without looking at it.
class Listing {
 public:
  explicit Listing(const fs::path& folder) : folder_(folder) {
    index_.classes = classes_in(folder);
    if (index_.classes.empty()) {
      throw DataError(fmt::format(
          "{}: has no sub-folders: there is to be one for each class, with its images", folder.string()));
    }
    for (std::size_t i = 0; i < index_.classes.size(); ++i)
      list(index_.classes[i], static_cast<std::int64_t>(i));
    std::ranges::sort(index_.images, {},
                      [](const ImageFile& image) { return std::tie(image.label, image.path); });
  }

  ImageIndex take() { return std::move(index_); }

 private:
  void list(const std::string& below, std::int64_t label) {
    index_.folders.push_back({below, changed_at(folder_ / below)});
    for (const fs::directory_entry& entry : entries_of(folder_ / below)) {
      const std::string path = below + "/" + entry.path().filename().string();
      if (std::ranges::any_of(path, [](unsigned char letter) { return letter < ' '; })) {
        throw DataError(fmt::format("{}: the name of a file has control characters: rename it",
                                    (folder_ / below).string()));
      }
      if (entry.is_directory()) {
        list(path, label);
      } else {
        index_.images.push_back({.label = label, .bytes = 0, .digest = 0, .path = path});
      }
    }
  }

  fs::path folder_;
  ImageIndex index_;
};

struct Looked {
  ImageSize size;
  std::string reason;  // why it is no image; a line
};

std::string in_one_line(std::string text) {
  std::ranges::replace_if(
      text, [](unsigned char letter) { return letter < ' '; }, ' ');
  return text;
}

Looked look_at(const fs::path& folder, ImageFile& image, ImageCheck check) {
  try {
    std::error_code code;
    if (!fs::is_regular_file(folder / image.path, code)) throw DataError("is no file");
    const std::string content = read_file(folder / image.path, kMostImageBytes);
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

// Has no file come or gone since the index was made? What has changed in its place is found when it is read.
bool is_up_to_date(const ImageIndex& index, const fs::path& folder) {
  const auto is_as_before = [&](const ImageIndex::Folder& each) {
    std::error_code code;
    return fs::is_directory(folder / each.path, code) && changed_at(folder / each.path) == each.changed;
  };
  return index.classes == classes_in(folder) && std::ranges::all_of(index.folders, is_as_before);
}

std::optional<ImageIndex> read_index(const fs::path& path) {
  std::error_code code;
  if (!fs::exists(path, code)) return std::nullopt;
  return image_index_from(read_file(path, kMostIndexBytes));
}

}  // namespace

std::uint64_t content_digest(std::string_view content) {
  Fnv1a digest;
  constexpr std::size_t kUnit = sizeof(std::uint64_t);
  for (; content.size() >= kUnit; content.remove_prefix(kUnit)) {
    std::uint64_t unit = 0;
    std::memcpy(&unit, content.data(), kUnit);
    digest.add_unit(unit);
  }
  digest.add(content);
  return digest.value();
}

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
  std::size_t bytes = images.capacity() * sizeof(ImageFile) + folders.capacity() * sizeof(Folder) +
                      skipped.capacity() * sizeof(Skipped) + classes.capacity() * sizeof(std::string);
  for (const ImageFile& image : images) bytes += of_text(image.path);
  for (const Folder& folder : folders) bytes += of_text(folder.path);
  for (const Skipped& file : skipped) bytes += of_text(file.path) + of_text(file.reason);
  for (const std::string& name : classes) bytes += of_text(name);
  return static_cast<std::int64_t>(bytes);
}

ImageIndex make_image_index(const fs::path& folder, ImageCheck check) {
  std::error_code code;
  if (!fs::is_directory(folder, code)) throw DataError(fmt::format("{}: is no folder", folder.string()));
  ImageIndex index = Listing(folder).take();
  std::vector<Looked> looked(index.images.size());
  parallel_for(looked.size(), 0, [&](std::size_t i) { looked[i] = look_at(folder, index.images[i], check); });
  keep_images(index, looked);
  if (index.images.empty()) {
    throw DataError(fmt::format(
        "{}: has no images in its {} classes{}", folder.string(), index.classes.size(),
        index.skipped.empty() ? std::string()
                              : fmt::format(": {}: {}", index.skipped[0].path, index.skipped[0].reason)));
  }
  return index;
}

ImageIndex open_image_index(const fs::path& folder, ImageCheck check) {
  const fs::path path = image_index_path(folder, check);
  if (std::optional<ImageIndex> kept = read_index(path); kept && is_up_to_date(*kept, folder))
    return std::move(*kept);
  ImageIndex index = make_image_index(folder, check);
  try {
    write_file(path, to_text(index));
  } catch (const DataError&) {
    // Without it all files are looked at again the next time.
  }
  return index;
}

fs::path image_index_path(const fs::path& folder, ImageCheck check) {
  return folder / (check == ImageCheck::kDecode ? ".rookery_images" : ".rookery_images_by_ends");
}

}  // namespace rookery
