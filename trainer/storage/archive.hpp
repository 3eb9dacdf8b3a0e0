// Archives: .tar, .tar.gz and .zip files as folders, read by libarchive.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "trainer/storage/file_tree.hpp"

namespace rookery {

// What an archive of so many bytes may come to, unpacked: 4 GiB and 32 times its size.
std::uint64_t most_unpacked(std::uint64_t archive_bytes);

// The folder `below` of an archive ("" for all of it), which is of the kind that its name says. Files of a
// .tar are read where they lie in it; others are unpacked first, into a file without a name on this machine
// (temporary_file.hpp), of which they take no more than `most_unpacked` bytes. DataError for what is no such
// archive, is damaged, or has no such folder.
std::unique_ptr<FileTree> open_archive(const SharedFile& archive, const std::string& below,
                                       std::uint64_t most_unpacked);

// A file of a .tar, and where in it its content stands.
struct TarMember {
  std::string path;
  std::uint64_t offset = 0, bytes = 0;
};
// All of them, in their order. DataError for what is no .tar, is damaged, or is packed.
std::vector<TarMember> tar_members(const SharedFile& tar);

}  // namespace rookery
