// "images:FOLDER", pictures in sub-folders, one a class, and "webdataset:SHARDS", pictures in .tar files:
// decoded and resized when they are asked for.

#include <algorithm>
#include <array>
#include <utility>

#include "models/base/error.hpp"
#include "models/base/libraries/format.hpp"
#include "models/base/parallel.hpp"
#include "trainer/data/content_digest.hpp"
#include "trainer/data/formats.hpp"
#include "trainer/data/images/image_store.hpp"
#include "trainer/data/images/pixel_cache.hpp"
#include "trainer/images/resize.hpp"

namespace rookery {
namespace {

constexpr const char* kInput = "input";
constexpr const char* kAnswers = "answers";
constexpr const char* kProbabilities = "probabilities";

struct ImageOptions {
  std::int64_t size = 32;  // of the samples' sides
  bool is_grey = false;
  ImageCheck check = ImageCheck::kDecode;
  double most_skipped = 0.1;  // of all files
  std::optional<Dataset::OwnSplit> split;
  bool has_probabilities = false;
  std::int64_t cache_bytes = 0;
};

class ImageDataset : public Dataset {
 public:
  ImageDataset(std::unique_ptr<ImageStore> store, const ImageOptions& options, std::filesystem::path kept)
      : store_(std::move(store)),
        options_(options),
        kept_(std::move(kept)),
        index_(open_image_index(*store_, options.check, kept_)),
        digest_(index_.digest()),
        cache_(size(), sample_pixels(), options.cache_bytes) {
    check_skipped();
    tensors_.emplace(kInput, TensorType{DType::kF32, {kBatch, channels(), options.size, options.size}});
    tensors_.emplace(kLabels, TensorType{DType::kI64, {kBatch}});
    if (options.has_probabilities)
      tensors_.emplace(kProbabilities, TensorType{DType::kF32, {kBatch, std::ssize(index_.classes)}});
    if (index_.classes.size() == 2) tensors_.emplace(kAnswers, TensorType{DType::kF32, {kBatch, 1}});
  }

  std::int64_t size() const override { return std::ssize(index_.images); }
  const ValueTypes& tensors() const override { return tensors_; }
  std::int64_t bytes() const override { return index_.bytes() + store_->bytes(); }
  std::int64_t most_bytes() const override { return bytes() + cache_.bytes(); }
  bool is_at_hand() const override { return false; }
  std::optional<OwnSplit> split() const override { return options_.split; }
  std::uint64_t digest() const override { return digest_; }
  std::vector<std::string> class_names() const override { return index_.classes; }

  // Files, of a server also its answers, an image's pixels as the libraries have them and as they are handed
  // on, and rows that are resized already.
  std::int64_t bytes_per_reader() const override {
    return files_at_once() * (store_->is_far() ? 2 : 1) * static_cast<std::int64_t>(index_.most_bytes) +
           kDecodingBytesPerPixel * index_.most_pixels + 3 * options_.size * index_.longest_side +
           3 * options_.size * options_.size;
  }
  int samples_at_once() const override { return std::max(files_at_once(), Dataset::samples_at_once()); }

  std::vector<std::string> warnings() const override {
    if (index_.skipped.empty()) return {};
    return {fmt::format("{}: {} are left out: {}", store_->name(), skipped_text(), kept_.string())};
  }

  void gather(const std::string& name, std::span<const std::int64_t> ids, TensorView into) const override {
    const auto type = tensors_.find(name);
    ROOKERY_CHECK(type != tensors_.end(), "the data set has no tensor '{}'", name);
    for (const std::int64_t id : ids) ROOKERY_CHECK(id >= 0 && id < size(), "sample {} of {}", id, size());
    const auto label_of = [&](std::int64_t id) { return index_.images[id].label; };
    if (name == kLabels) {
      std::ranges::transform(ids, into.as<std::int64_t>().begin(), label_of);
    } else if (name == kAnswers) {
      std::ranges::transform(ids, into.as<float>().begin(),
                             [&](std::int64_t id) { return static_cast<float>(label_of(id)); });
    } else if (name == kProbabilities) {
      const auto to = into.as<float>();
      std::ranges::fill(to, 0.0F);
      for (std::size_t i = 0; i < ids.size(); ++i)
        to[i * index_.classes.size() + static_cast<std::size_t>(label_of(ids[i]))] = 1;
    } else {
      gather_pixels(ids, into.as<float>());
    }
  }

 private:
  std::int64_t channels() const { return options_.is_grey ? 1 : 3; }
  std::int64_t sample_pixels() const { return channels() * options_.size * options_.size; }

  std::string skipped_text() const {
    constexpr std::size_t kNamed = 3;
    std::vector<std::string> named;
    for (std::size_t i = 0; i < std::min(kNamed, index_.skipped.size()); ++i)
      named.push_back(fmt::format("{} ({})", index_.skipped[i].path, index_.skipped[i].reason));
    return fmt::format("{} of {} files, which are no images, as {}{}", index_.skipped.size(),
                       index_.skipped.size() + index_.images.size(), fmt::join(named, ", "),
                       index_.skipped.size() > kNamed ? ", …" : "");
  }

  void check_skipped() const {
    const auto files = static_cast<double>(index_.skipped.size() + index_.images.size());
    if (static_cast<double>(index_.skipped.size()) <= options_.most_skipped * files) return;
    throw DataError(fmt::format(
        "{}: {} would be left out, more than the share of {:g} that may be: see {}, remove or mend "
        "them, or give the option skip={:.2g}",
        store_->name(), skipped_text(), options_.most_skipped, kept_.string(),
        std::min(1.0, static_cast<double>(index_.skipped.size()) / files + 0.005)));
  }

  // What a thread needs for an image, with its memory.
  struct Workplace {
    Image decoded, resized;
    Resizer resizer;
  };

  // Files of a server are asked for several at a time.
  int files_at_once() const { return store_->is_far() ? kFarFiles : 1; }

  void gather_pixels(std::span<const std::int64_t> ids, std::span<float> to) const {
    const auto each = static_cast<std::size_t>(sample_pixels());
    ROOKERY_CHECK(to.size() == ids.size() * each, "{} images of {} numbers into {}", ids.size(), each,
                  to.size());
    thread_local Workplace workplace;
    while (!ids.empty()) {
      const auto some = ids.first(std::min<std::size_t>(files_at_once(), ids.size()));
      std::vector<std::string> contents(some.size());
      parallel_for(some.size(), files_at_once(), [&](std::size_t i) {
        if (cache_.find(some[i]).empty()) contents[i] = read(index_.images[some[i]]);
      });
      for (std::size_t i = 0; i < some.size(); ++i)
        to_planes(pixels_of(some[i], contents[i], workplace), to.subspan(i * each, each));
      ids = ids.subspan(some.size());
      to = to.subspan(some.size() * each);
    }
  }

  std::string read(const ImageFile& image) const {
    const SharedFile file = store_->open(image);
    constexpr const char* kChanged = "has changed since its data set was planned with: run clusterize again";
    if (file->size() != image.bytes) throw DataError(fmt::format("{}: {}", file->name(), kChanged));
    std::string content = read_whole(*file, index_.most_bytes);
    if (image.digest != 0 && content_digest(content) != image.digest)
      throw DataError(fmt::format("{}: {}", file->name(), kChanged));
    return content;
  }

  // Those that are kept, or else of the content of its file. Valid until the next call.
  std::span<const std::uint8_t> pixels_of(std::int64_t id, const std::string& content,
                                          Workplace& workplace) const {
    if (const auto kept = cache_.find(id); !kept.empty()) return kept;
    const ImageSize wanted{options_.size, options_.size};
    with_context(store_->name_of(index_.images[id]), [&] {
      decode_image(std::as_bytes(std::span(content)), wanted, workplace.decoded);
      if (options_.is_grey) to_grey(workplace.decoded);
      workplace.resizer.resize(workplace.decoded, wanted, workplace.resized);
    });
    cache_.keep(id, workplace.resized.bytes);
    return workplace.resized.bytes;
  }

  // From pixel after pixel to channel after channel, from 0 to 1.
  void to_planes(std::span<const std::uint8_t> pixels, std::span<float> to) const {
    constexpr float kWhite = 255;
    const auto planes = static_cast<std::size_t>(channels());
    const std::size_t plane = to.size() / planes;
    for (std::size_t channel = 0; channel < planes; ++channel) {
      float* values = to.data() + channel * plane;
      for (std::size_t i = 0; i < plane; ++i)
        values[i] = static_cast<float>(pixels[i * planes + channel]) / kWhite;
    }
  }

  std::unique_ptr<ImageStore> store_;
  ImageOptions options_;
  std::filesystem::path kept_;  // where the index is
  ImageIndex index_;
  std::uint64_t digest_;
  mutable PixelCache cache_;
  ValueTypes tensors_;
};

std::unique_ptr<Dataset> open_images(NamedOptions& options, const DataPlace& place,
                                     std::unique_ptr<ImageStore> (*open_store)(const Place&)) {
  const std::array<std::string, 2> colours{"rgb", "grey"};
  const std::array<std::string, 2> checks{"decode", "ends"};
  ImageOptions images{
      .size = options.integer("size", 32, 1, 4096),
      .is_grey = options.choice("colour", "rgb", colours) == "grey",
      .check = options.choice("check", "decode", checks) == "ends" ? ImageCheck::kEnds : ImageCheck::kDecode,
      .most_skipped = options.number("skip", 0.1, 0, 1),
      .has_probabilities = options.integer("probabilities", 0, 0, 1) == 1,
      .cache_bytes = place.reading.cache_mib << 20};
  const bool has_split = options.has("train") || options.has("seed");
  const Dataset::OwnSplit split{.train_fraction = options.number("train", 0.8, 1e-6, 1),
                                .seed = static_cast<std::uint64_t>(options.integer("seed", 0, 0, 1LL << 53))};
  if (has_split) images.split = split;
  options.expect_none_left();
  return std::make_unique<ImageDataset>(open_store(place.where), images,
                                        image_index_path(place.where, place.node_data, images.check));
}

std::unique_ptr<Dataset> open_folder(NamedOptions& options, const DataPlace& place) {
  return open_images(options, place, open_image_folder);
}

std::unique_ptr<Dataset> open_webdataset(NamedOptions& options, const DataPlace& place) {
  return open_images(options, place, open_shards);
}

}  // namespace

DataFormat images_format() {
  return {
      .name = "images:FOLDER",
      .pattern = "images:.",
      .help =
          "JPEG, PNG, WebP and BMP files, in a sub-folder for each class: `input` f32[3, size, size] from 0 "
          "to 1, `labels` in the order of the classes' names; of two classes also `answers` f32[1], 1 for "
          "the second. Options: `size=32`; `colour=rgb` or `grey`, f32[1, size, size]; `train=0.8` and "
          "`seed=0`, a split of its own in place of that of train.json; `skip=0.1`, the share of files "
          "that may be no images; `check=decode` or `ends`, how these are found; `probabilities=1`, also "
          "`probabilities` f32[classes], for `mixup` (docs/data.md)",
      .open = open_folder};
}

DataFormat webdataset_format() {
  return {
      .name = "webdataset:SHARDS",
      .pattern = "webdataset:.",
      .help =
          "`.tar` files as WebDataset has them: files that differ in what follows the first `.` of their "
          "names "
          "are a sample, an image (`.jpg`, `.jpeg`, `.png`, `.webp`, `.bmp`) and its class as a number "
          "(`.cls`); one shard, several (`train-{000..019}.tar`), or a folder of them. What it has, and its "
          "options, are those of `images:FOLDER`",
      .open = open_webdataset};
}

}  // namespace rookery
