#include "trainer/storage/file_tree.hpp"

#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <system_error>

#include "models/base/error.hpp"
#include "models/base/fnv.hpp"
#include "models/base/libraries/format.hpp"
#include "trainer/storage/archive.hpp"
#include "trainer/storage/remote/remote_file.hpp"
#include "trainer/storage/remote/s3.hpp"

namespace rookery {
namespace {

namespace fs = std::filesystem;

bool is_hidden(std::string_view path) {
  return path.starts_with('.') || path.find("/.") != std::string_view::npos;
}

class LocalTree : public FileTree {
 public:
  explicit LocalTree(const fs::path& folder) : FileTree(folder.string()), folder_(folder) {
    list("");
    set(std::move(found_), std::move(folders_found_), changes_.value());
  }

  SharedFile open(const std::string& path) const override { return open_local_file(folder_ / path); }

 private:
  // What lies below the folder `below`, "" or "cats/".
  void list(const std::string& below) {
    note_change(below);
    std::vector<std::string> deeper;
    std::error_code code;
    for (fs::directory_iterator entry(folder_ / below, code), end; !code && entry != end;
         entry.increment(code)) {
      const std::string name = entry->path().filename().string();
      if (is_hidden(name)) continue;
      std::error_code unreadable;  // such as a circle of links: then it is a file that cannot be read
      if (entry->is_directory(unreadable)) {
        deeper.push_back(name);
      } else {
        found_.push_back(below + name);
      }
    }
    if (code) throw DataError(fmt::format("{}: cannot read: {}", (folder_ / below).string(), code.message()));
    std::ranges::sort(deeper);
    if (below.empty()) folders_found_ = deeper;
    for (const std::string& name : deeper) list(below + name + "/");
  }

  // Of what lies in the folder itself only the folders below it count: files beside them may come and go.
  void note_change(const std::string& below) {
    changes_.add(below);
    if (below.empty()) return;
    struct stat status {};
    if (stat((folder_ / below).c_str(), &status) != 0)
      throw DataError(fmt::format("{}: cannot read: {}", (folder_ / below).string(), std::strerror(errno)));
    changes_.add_unit(static_cast<std::uint64_t>(status.st_mtim.tv_sec));
    changes_.add_unit(static_cast<std::uint64_t>(status.st_mtim.tv_nsec));
  }

  fs::path folder_;
  std::vector<std::string> found_, folders_found_;
  Fnv1a changes_;
};

class S3Tree : public FileTree {
 public:
  // The key of `folder` does not end in '/'.
  S3Tree(S3 s3, const S3Address& folder) : FileTree(folder.text()), s3_(std::move(s3)), folder_(folder) {
    if (!folder_.key.empty()) folder_.key += '/';
    const std::string& prefix = folder_.key;
    std::vector<std::string> files;
    Fnv1a version;
    for (S3Object& object : s3_.list(folder_)) {
      if (object.key.ends_with('/') || object.key.size() <= prefix.size()) continue;  // stands for a folder
      files.push_back(object.key.substr(prefix.size()));
      version.add(object.key + "\n" + object.etag + "\n");
      version.add_unit(object.bytes);
      objects_.push_back(std::move(object));
    }
    if (files.empty()) throw DataError(fmt::format("{}: there are no objects below it", name()));
    set(std::move(files), {}, version.value());
  }

  SharedFile open(const std::string& path) const override {
    const std::string key = folder_.key + path;
    const auto found = std::ranges::lower_bound(objects_, key, {}, &S3Object::key);
    if (found == objects_.end() || found->key != key)
      throw DataError(fmt::format("{}: there is no such object", name_of(path)));
    return s3_.open(folder_.bucket, *found);
  }
  bool is_far() const override { return true; }
  std::int64_t bytes() const override {
    std::int64_t bytes = FileTree::bytes();
    for (const S3Object& object : objects_)
      bytes += bytes_of(object.key) + bytes_of(object.etag) + std::int64_t{sizeof(object.bytes)};
    return bytes;
  }

 private:
  S3 s3_;
  S3Address folder_;
  std::vector<S3Object> objects_;  // by key
};

SharedFile open_outer(const Place& place) {
  switch (place.kind()) {
    case Place::Kind::kHttp: {
      HttpRequest request;
      request.url = place.outer();
      request.shown = place.shown();
      return open_remote_file(std::move(request));
    }
    case Place::Kind::kS3:
      return S3(s3_access()).open(S3Address::of(place.outer()));
    default:
      return open_local_file(place.outer());
  }
}

std::unique_ptr<FileTree> open_archive_of(const Place& place, const std::string& below) {
  const SharedFile archive = open_outer(place);
  return open_archive(archive, below, most_unpacked(archive->size()));
}

}  // namespace

void FileTree::set(std::vector<std::string> files, std::vector<std::string> folders, std::uint64_t version) {
  std::erase_if(files, is_hidden);
  std::ranges::sort(files);
  for (const std::string& file : files) {
    const std::size_t slash = file.find('/');
    if (slash != std::string::npos && (folders.empty() || file.compare(0, slash, folders.back()) != 0))
      folders.push_back(file.substr(0, slash));
  }
  std::ranges::sort(folders);
  folders.erase(std::unique(folders.begin(), folders.end()), folders.end());
  files_ = std::move(files);
  folders_ = std::move(folders);
  version_ = version;
}

std::int64_t FileTree::bytes() const {
  std::int64_t bytes = 0;
  for (const auto* list : {&files_, &folders_}) {
    for (const std::string& text : *list) bytes += bytes_of(text);
  }
  return bytes;
}

std::unique_ptr<FileTree> open_tree(const Place& place) {
  std::error_code code;
  if (place.is_archive() && (place.kind() != Place::Kind::kLocal || fs::is_regular_file(place.outer(), code)))
    return open_archive_of(place, place.inner());
  if (place.kind() == Place::Kind::kS3) {
    S3Address folder = S3Address::of(place.outer());
    while (folder.key.ends_with('/')) folder.key.pop_back();
    return std::make_unique<S3Tree>(S3(s3_access()), folder);
  }
  if (place.kind() == Place::Kind::kHttp) {
    throw DataError(fmt::format(
        "{}: a web server has no list of its files: name an archive there (.tar, .tar.gz, .tgz, .zip)",
        place.shown()));
  }
  if (!fs::is_directory(place.outer(), code))
    throw DataError(fmt::format("{}: is no folder{}", place.outer(),
                                fs::exists(place.outer(), code) ? "" : ", nor is there a file of this name"));
  return std::make_unique<LocalTree>(place.outer());
}

SharedFile open_file(const Place& place) {
  if (place.inner().empty()) return open_outer(place);
  const std::size_t slash = place.inner().rfind('/');
  const bool is_in_folder = slash != std::string::npos;
  const auto archive = open_archive_of(place, is_in_folder ? place.inner().substr(0, slash) : "");
  return archive->open(is_in_folder ? place.inner().substr(slash + 1) : place.inner());
}

}  // namespace rookery
