// Where a file or a folder of files lies: on this machine, on a web server, in a bucket, and there perhaps
// within an archive.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>

namespace rookery {

// Is it an address, "https://…", "http://…" or "s3://…", and no path?
bool is_address(std::string_view text);
// Does its name say that it is an archive: .tar, .tar.gz, .tgz, .zip, .npz?
bool is_archive_name(std::string_view name);

struct Place {
  enum class Kind : std::uint8_t { kLocal, kHttp, kS3 };

  // "s3://bucket/pets.tar.gz/train": what follows an archive lies within it.
  static Place of_address(std::string_view address);
  // A path; only what is a file there counts as an archive.
  Place(const std::filesystem::path& path);  // NOLINT(*-explicit-*): a path is one
  // An address as it is; a path below `folder`.
  static Place below(const std::filesystem::path& folder, std::string_view name);

  Kind kind() const { return kind_; }
  // The file or folder, or the archive.
  const std::string& outer() const { return outer_; }
  // Of an address the same without a query and without a name and a password, which are somebody's secrets:
  // for messages, and for how a file is called.
  std::string shown() const;
  // What is meant within the archive; empty for all of it.
  const std::string& inner() const { return inner_; }
  bool is_archive() const { return is_archive_name(shown()); }
  // Nothing but a path of this machine?
  bool is_plain_path() const { return kind_ == Kind::kLocal && inner_.empty(); }

 private:
  Place(Kind kind, std::string outer, std::string inner)
      : kind_(kind), outer_(std::move(outer)), inner_(std::move(inner)) {}

  Kind kind_ = Kind::kLocal;
  std::string outer_;
  std::string inner_;
};

}  // namespace rookery
