// Where the images of a data set are, and what each of them is called there: folders by class, or shards.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <utility>

#include "trainer/data/images/image_index.hpp"
#include "trainer/storage/place.hpp"
#include "trainer/storage/random_file.hpp"

namespace rookery {

// Any number of threads at once. Every error is a DataError that names the file.
class ImageStore {
 public:
  explicit ImageStore(std::string name) : name_(std::move(name)) {}
  virtual ~ImageStore() = default;
  ImageStore(const ImageStore&) = delete;
  ImageStore& operator=(const ImageStore&) = delete;

  // As messages name it, and one of its files.
  const std::string& name() const { return name_; }
  std::string name_of(const ImageFile& image) const { return name_ + "/" + image.path; }
  // Changes when a file comes or goes.
  virtual std::uint64_t version() const = 0;
  // Does reading wait for something other than a disk?
  virtual bool is_far() const = 0;
  // Memory that it holds.
  virtual std::int64_t bytes() const = 0;
  // The classes and all files that may be images, in the order of their samples; nobody has looked at them.
  virtual ImageIndex list() const = 0;
  // One of the files of its list, or of an index made of it.
  virtual SharedFile open(const ImageFile& image) const = 0;

 private:
  std::string name_;
};

// A sub-folder for each class, with all that lies below it.
std::unique_ptr<ImageStore> open_image_folder(const Place& place);

// Shards as WebDataset has them (https://github.com/webdataset/webdataset): .tar files in which files of one
// name, but for what follows its first '.', are a sample: an image, and its class as a number in a file .cls.
// The place is a folder of shards, one of them, or several: "train-{000..019}.tar".
std::unique_ptr<ImageStore> open_shards(const Place& place);

}  // namespace rookery
