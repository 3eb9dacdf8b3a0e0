// Images in sub-folders, one a class.

#include <algorithm>
#include <tuple>

#include "models/base/error.hpp"
#include "models/base/libraries/format.hpp"
#include "trainer/data/images/image_store.hpp"
#include "trainer/storage/file_tree.hpp"

namespace rookery {
namespace {

class ImageFolder : public ImageStore {
 public:
  explicit ImageFolder(std::unique_ptr<FileTree> tree) : ImageStore(tree->name()), tree_(std::move(tree)) {}

  std::uint64_t version() const override { return tree_->version(); }
  bool is_far() const override { return tree_->is_far(); }
  std::int64_t bytes() const override { return tree_->bytes(); }
  SharedFile open(const ImageFile& image) const override { return tree_->open(image.path); }

  ImageIndex list() const override {
    ImageIndex index;
    index.classes = tree_->folders();
    if (index.classes.empty()) {
      throw DataError(
          fmt::format("{}: has no sub-folders: there is to be one for each class, with its images", name()));
    }
    for (const std::string& path : tree_->files()) {
      const std::size_t slash = path.find('/');
      if (slash == std::string::npos) continue;  // of no class
      const auto label = std::ranges::lower_bound(index.classes, path.substr(0, slash));
      index.images.push_back({.label = label - index.classes.begin(), .path = path});
    }
    std::ranges::sort(index.images, {},
                      [](const ImageFile& image) { return std::tie(image.label, image.path); });
    return index;
  }

 private:
  std::unique_ptr<FileTree> tree_;
};

}  // namespace

std::unique_ptr<ImageStore> open_image_folder(const Place& place) {
  return std::make_unique<ImageFolder>(open_tree(place));
}

}  // namespace rookery
