#include "clusterize/provider_links.hpp"

#include <fmt/format.h>

#include <system_error>

namespace rookery {
namespace fs = std::filesystem;

std::string make_provider_links(const fs::path& folder, const std::vector<std::string>& node_ids) {
  for (const std::string& id : node_ids) {
    const fs::path link = folder / ("provider_" + id);
    std::error_code code;
    const fs::file_status status = fs::symlink_status(link, code);
    if (fs::exists(status) && !fs::is_symlink(status))
      return fmt::format("{} is there and is no link", link.string());
    if (fs::is_symlink(status) && fs::read_symlink(link, code) == "provider") continue;
    fs::remove(link, code);
    fs::create_symlink("provider", link, code);
    if (code) return fmt::format("cannot make {}: {}", link.string(), code.message());
  }
  return {};
}

fs::path program_folder() {
  return fs::read_symlink("/proc/self/exe").parent_path();
}

}  // namespace rookery
