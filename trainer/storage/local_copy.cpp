#include "trainer/storage/local_copy.hpp"

#include "trainer/storage/file_tree.hpp"

namespace rookery {

LocalCopy::LocalCopy(const Place& place) : name_(place.outer()), path_(place.outer()) {
  if (place.is_plain_path()) return;
  const SharedFile file = open_file(place);
  copy_ = fetched(*file);
  name_ = file->name();
  path_ = copy_->path();
}

}  // namespace rookery
