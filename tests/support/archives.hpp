// Writes archives.
#pragma once

#include <archive.h>
#include <archive_entry.h>

#include <filesystem>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

namespace rookery {

using ArchivedFiles = std::vector<std::pair<std::string, std::string>>;  // path, content

// Of the kind that its name says: .tar, .tar.gz, .zip or .npz.
inline void write_archive(const std::filesystem::path& path, const ArchivedFiles& files) {
  const std::string name = path.string();
  archive* to = archive_write_new();
  if (name.ends_with(".zip") || name.ends_with(".npz")) {
    archive_write_set_format_zip(to);
  } else {
    archive_write_set_format_pax_restricted(to);
  }
  if (name.ends_with(".gz")) archive_write_add_filter_gzip(to);
  bool is_good = archive_write_open_filename(to, name.c_str()) == ARCHIVE_OK;
  for (const auto& [file, content] : files) {
    archive_entry* entry = archive_entry_new();
    archive_entry_set_pathname(entry, file.c_str());
    archive_entry_set_filetype(entry, AE_IFREG);
    archive_entry_set_perm(entry, 0644);
    archive_entry_set_size(entry, static_cast<la_int64_t>(content.size()));
    is_good = is_good && archive_write_header(to, entry) == ARCHIVE_OK &&
              archive_write_data(to, content.data(), content.size()) == std::ssize(content);
    archive_entry_free(entry);
  }
  is_good = archive_write_close(to) == ARCHIVE_OK && is_good;
  archive_write_free(to);
  if (!is_good) throw std::runtime_error("cannot write " + name);
}

}  // namespace rookery
