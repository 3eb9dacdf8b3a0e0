// Images in .tar files, as WebDataset has them.

#include <algorithm>
#include <array>
#include <map>
#include <optional>
#include <vector>

#include "models/base/error.hpp"
#include "models/base/fnv.hpp"
#include "models/base/libraries/format.hpp"
#include "models/base/parallel.hpp"
#include "models/base/parse.hpp"
#include "trainer/data/images/image_store.hpp"
#include "trainer/storage/archive.hpp"
#include "trainer/storage/file_tree.hpp"

namespace rookery {
namespace {

constexpr std::string_view kTar = ".tar";
constexpr std::size_t kMostShards = 100'000;
constexpr std::int64_t kMostNamedClasses = 1 << 20;
constexpr std::array<std::string_view, 5> kImageEndings{"jpg", "jpeg", "png", "webp", "bmp"};

// Of a line, as files have it.
std::optional<std::int64_t> number_in_line(std::string_view text) {
  while (!text.empty() && (text.back() == '\n' || text.back() == '\r' || text.back() == ' '))
    text.remove_suffix(1);
  return number_from<std::int64_t>(text);
}

// "a-{08..10}.tar" is a-08.tar, a-09.tar and a-10.tar; what has no braces is itself.
std::vector<std::string> expanded(const std::string& text) {
  const std::size_t open = text.find('{');
  const std::size_t close = text.find('}', std::min(open, text.size()));
  if (open == std::string::npos || close == std::string::npos) return {text};
  const std::string range = text.substr(open + 1, close - open - 1);
  const std::size_t dots = std::min(range.find(".."), range.size());
  const auto first = number_in_line(range.substr(0, dots));
  const auto last = number_in_line(std::string_view(range).substr(std::min(range.size(), dots + 2)));
  if (!first || !last || *first < 0 || *last < *first ||
      static_cast<std::uint64_t>(*last - *first) >= kMostShards) {
    throw ConfigError(fmt::format("{}: '{{{}}}' is no range of numbers such as {{000..019}}, of {} at most",
                                  text, range, kMostShards));
  }
  std::vector<std::string> texts;
  for (std::int64_t number = *first; number <= *last; ++number)
    texts.push_back(fmt::format("{}{:0{}}{}", text.substr(0, open), number, dots, text.substr(close + 1)));
  return texts;
}

// The part of a path that names a sample, and what kind of file it is: "n01/a.b.jpg" is "n01/a" and "b.jpg".
std::pair<std::string, std::string> key_and_ending(const std::string& path) {
  const std::size_t name = path.rfind('/') + 1;  // 0 where there is none
  const std::size_t dot = std::min(path.find('.', name), path.size());
  return {path.substr(0, dot), path.substr(std::min(dot + 1, path.size()))};
}

struct Shard {
  std::string name;
  Place place;
  SharedFile far;  // it stays open where that takes a request, but not where it takes a descriptor

  SharedFile open() const { return far ? far : open_file(place); }
};

class Shards : public ImageStore {
 public:
  Shards(std::string name, std::vector<Shard> shards)
      : ImageStore(std::move(name)), shards_(std::move(shards)) {
    std::vector<std::uint64_t> versions(shards_.size());
    parallel_for(shards_.size(), kFarReadings, [&](std::size_t i) {
      const SharedFile file = shards_[i].open();
      versions[i] = file->version();
      if (file->is_far()) shards_[i].far = file;
    });
    Fnv1a version;
    for (std::size_t i = 0; i < shards_.size(); ++i) {
      version.add(shards_[i].name + "\n");
      version.add_unit(versions[i]);
    }
    version_ = version.value();
  }

  std::uint64_t version() const override { return version_; }
  bool is_far() const override { return shards_.front().far != nullptr; }
  std::int64_t bytes() const override {
    constexpr std::int64_t kEach = 1024;  // with its place, and the request by which a far one is read
    return std::ssize(shards_) * kEach;
  }

  SharedFile open(const ImageFile& image) const override {
    const std::string shard = image.path.substr(0, image.path.find(".tar/") + kTar.size());
    const auto found = std::ranges::find(shards_, shard, &Shard::name);
    if (found == shards_.end()) throw DataError(fmt::format("{}: there is no such shard", name_of(image)));
    const SharedFile file = found->open();
    if (image.bytes > file->size() || image.offset > file->size() - image.bytes)
      throw DataError(fmt::format("{}: its shard has become shorter: run clusterize again", name_of(image)));
    return part_of_file(file, image.offset, image.bytes, name_of(image));
  }

  ImageIndex list() const override {
    std::vector<ImageIndex> parts(shards_.size());
    parallel_for(shards_.size(), is_far() ? kFarReadings : 0,
                 [&](std::size_t i) { parts[i] = list(shards_[i]); });
    ImageIndex index;
    std::int64_t classes = 0;
    for (ImageIndex& part : parts) {
      for (ImageFile& image : part.images) {
        classes = std::max(classes, image.label + 1);
        index.images.push_back(std::move(image));
      }
      std::ranges::move(part.skipped, std::back_inserter(index.skipped));
    }
    for (std::int64_t i = 0; i < classes; ++i) index.classes.push_back(fmt::format("{}", i));
    return index;
  }

 private:
  // The samples of a shard in the order in which they stand there.
  static ImageIndex list(const Shard& shard) {
    struct Sample {
      std::optional<TarMember> image, label;
    };
    std::vector<std::pair<std::string, Sample>> samples;
    std::map<std::string, std::size_t> places;
    const SharedFile file = shard.open();
    for (TarMember& member : tar_members(file)) {
      const auto [key, ending] = key_and_ending(member.path);
      const bool is_image = std::ranges::find(kImageEndings, ending) != kImageEndings.end();
      if (!is_image && ending != "cls") continue;
      const auto [place, is_new] = places.emplace(key, samples.size());
      if (is_new) samples.emplace_back(key, Sample());
      Sample& sample = samples[place->second].second;
      (is_image ? sample.image : sample.label) = std::move(member);
    }
    ImageIndex index;
    for (const auto& [key, sample] : samples) {
      const std::string path = shard.name + "/" + (sample.image ? sample.image->path : key);
      std::string problem = sample.image ? "" : "has no image";
      std::int64_t label = 0;
      if (problem.empty()) problem = read_label(file, sample.label, label);
      if (problem.empty()) {
        index.images.push_back(
            {.label = label, .bytes = sample.image->bytes, .offset = sample.image->offset, .path = path});
      } else {
        index.skipped.push_back({path, problem});
      }
    }
    return index;
  }

  // Returns what is wrong with it.
  static std::string read_label(const SharedFile& shard, const std::optional<TarMember>& member,
                                std::int64_t& label) {
    constexpr std::uint64_t kMostBytes = 32;
    if (!member) return "has no class (.cls)";
    if (member->bytes > kMostBytes) return "has a class (.cls) that is no number";
    const auto number = number_in_line(
        read_whole(*part_of_file(shard, member->offset, member->bytes, member->path), kMostBytes));
    if (!number || *number < 0 || *number >= kMostNamedClasses)
      return fmt::format("has a class (.cls) that is no number from 0 to {}", kMostNamedClasses - 1);
    label = *number;
    return "";
  }

  std::vector<Shard> shards_;
  std::uint64_t version_ = 0;
};

Place place_of(const std::string& text) {
  return is_address(text) ? Place::of_address(text) : Place(std::filesystem::path(text));
}

}  // namespace

std::unique_ptr<ImageStore> open_shards(const Place& place) {
  const std::string& text = place.outer();
  const std::size_t folder_end = std::min(text.rfind('/'), text.size());
  std::vector<Shard> shards;
  if (text.ends_with(kTar) && place.inner().empty()) {
    for (const std::string& each : expanded(text))
      shards.push_back({each.substr(std::min(each.rfind('/') + 1, each.size())), place_of(each), nullptr});
    return std::make_unique<Shards>(text.substr(0, folder_end), std::move(shards));
  }
  const std::unique_ptr<FileTree> tree = open_tree(place);
  for (const std::string& name : tree->files()) {
    if (name.ends_with(kTar)) shards.push_back({name, place_of(tree->name_of(name)), nullptr});
  }
  if (shards.empty()) throw DataError(fmt::format("{}: has no shards, files that end in .tar", tree->name()));
  return std::make_unique<Shards>(tree->name(), std::move(shards));
}

}  // namespace rookery
