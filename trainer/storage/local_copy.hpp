// A file for readers that know files of this machine alone.
#pragma once

#include <filesystem>
#include <memory>
#include <string>
#include <utility>

#include "models/base/error.hpp"
#include "trainer/storage/place.hpp"
#include "trainer/storage/temporary_file.hpp"

namespace rookery {

// A plain path is the file itself; of what lies elsewhere, or in an archive, a copy without a name
// (temporary_file.hpp), which is there as long as the object.
class LocalCopy {
 public:
  // DataError when it cannot be fetched.
  explicit LocalCopy(const Place& place);

  const std::filesystem::path& path() const { return path_; }
  // As messages name it.
  const std::string& name() const { return name_; }
  // read(path()); errors name a copy by what it is of.
  template <typename Read>
  auto read(Read&& read) const {
    return copy_ ? with_context(name_, [&] { return read(path_); }) : read(path_);
  }

 private:
  std::shared_ptr<const TemporaryFile> copy_;
  std::string name_;
  std::filesystem::path path_;
};

}  // namespace rookery
