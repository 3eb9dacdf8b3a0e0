// A folder of files, wherever it lies: on this machine, in an archive, in a bucket.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "trainer/storage/place.hpp"
#include "trainer/storage/random_file.hpp"

namespace rookery {

// Any number of threads at once. Every error is a DataError that names the file.
class FileTree {
 public:
  explicit FileTree(std::string name) : name_(std::move(name)) {}
  virtual ~FileTree() = default;
  FileTree(const FileTree&) = delete;
  FileTree& operator=(const FileTree&) = delete;

  // Paths of all files below the folder, in their order as bytes. Those that begin with '.', or lie in a
  // folder that does, are left out.
  const std::vector<std::string>& files() const { return files_; }
  // Folders directly below it, in the same order; one without files only where it is a folder of this
  // machine.
  const std::vector<std::string>& folders() const { return folders_; }
  // Changes when a file comes or goes. What has changed in its place may show only in the file itself.
  std::uint64_t version() const { return version_; }
  // One of files().
  virtual SharedFile open(const std::string& path) const = 0;
  // Does opening and reading wait for something other than a disk?
  virtual bool is_far() const { return false; }
  // Memory that it holds.
  virtual std::int64_t bytes() const;
  // As messages name it.
  const std::string& name() const { return name_; }
  std::string name_of(const std::string& path) const { return name_ + "/" + path; }

 protected:
  // What a text takes in a list of texts, and what the heap adds.
  static std::int64_t bytes_of(const std::string& text) {
    return static_cast<std::int64_t>(sizeof(std::string) + text.capacity()) + 16;
  }
  // Sorts the paths, leaves out those that are hidden and adds the folders that they lie in.
  void set(std::vector<std::string> files, std::vector<std::string> folders, std::uint64_t version);

 private:
  std::string name_;
  std::vector<std::string> files_, folders_;
  std::uint64_t version_ = 0;
};

// DataError for what is no folder, no archive and no beginning of keys in a bucket; a web server has no list
// of its files, but may have an archive.
std::unique_ptr<FileTree> open_tree(const Place& place);
// DataError for what is no file.
SharedFile open_file(const Place& place);

}  // namespace rookery
