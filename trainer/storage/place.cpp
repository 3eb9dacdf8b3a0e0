#include "trainer/storage/place.hpp"

#include <algorithm>
#include <array>
#include <system_error>

namespace rookery {
namespace {

constexpr std::string_view kS3 = "s3://";
constexpr std::array<std::string_view, 3> kAddresses{kS3, "https://", "http://"};
constexpr std::array<std::string_view, 5> kArchives{".tar", ".tar.gz", ".tgz", ".zip", ".npz"};

// Where the first part of the path, from `begin` on, ends that names an archive; npos where none does.
template <typename IsFile>
std::size_t end_of_archive(std::string_view path, std::size_t begin, const IsFile& is_file) {
  while (begin < path.size()) {
    const std::size_t end = std::min(path.find('/', begin), path.size());
    if (is_archive_name(path.substr(begin, end - begin)) && is_file(path.substr(0, end))) return end;
    begin = end + 1;
  }
  return std::string_view::npos;
}

std::string within(std::string_view path, std::size_t end) {
  std::string_view inner = path.substr(std::min(end, path.size()));
  while (inner.starts_with('/')) inner.remove_prefix(1);
  while (inner.ends_with('/')) inner.remove_suffix(1);
  return std::string(inner);
}

}  // namespace

bool is_address(std::string_view text) {
  return std::ranges::any_of(kAddresses, [&](std::string_view scheme) { return text.starts_with(scheme); });
}

bool is_archive_name(std::string_view name) {
  return std::ranges::any_of(kArchives, [&](std::string_view ending) { return name.ends_with(ending); });
}

Place Place::of_address(std::string_view address) {
  const Kind kind = address.starts_with(kS3) ? Kind::kS3 : Kind::kHttp;
  // A query belongs to the address of the archive.
  const std::size_t query = kind == Kind::kHttp ? address.find('?') : std::string_view::npos;
  const std::string_view path = address.substr(0, query);
  const std::size_t host = std::min(path.find('/', path.find("://") + 3), path.size());
  const std::size_t end = end_of_archive(path, host, [](std::string_view) { return true; });
  if (end == std::string_view::npos) return {kind, std::string(address), ""};
  std::string outer(path.substr(0, end));
  if (query != std::string_view::npos) outer += address.substr(query);
  return {kind, std::move(outer), within(path, end)};
}

Place::Place(const std::filesystem::path& path) : outer_(path.string()) {
  const std::size_t end = end_of_archive(outer_, 0, [](std::string_view part) {
    std::error_code code;
    return std::filesystem::is_regular_file(part, code);
  });
  if (end == std::string::npos) return;
  inner_ = within(outer_, end);
  outer_.resize(end);
}

Place Place::below(const std::filesystem::path& folder, std::string_view name) {
  return is_address(name) ? of_address(name) : Place(folder / name);
}

std::string Place::shown() const {
  if (kind_ != Kind::kHttp) return outer_;
  std::string shown = outer_.substr(0, outer_.find('?'));
  const std::size_t host = shown.find("://") + 3;
  const std::size_t user = shown.rfind('@', shown.find('/', host));
  if (user != std::string::npos && user >= host) shown.erase(host, user + 1 - host);
  return shown;
}

}  // namespace rookery
