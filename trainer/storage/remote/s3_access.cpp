#include "trainer/storage/remote/s3_access.hpp"

#include <cstdlib>
#include <filesystem>
#include <system_error>

#include "models/base/error.hpp"
#include "models/base/files/files.hpp"
#include "models/base/libraries/format.hpp"
#include "models/base/parse.hpp"

namespace rookery {
namespace {

using Profile = std::map<std::string, std::string>;

// The profile in the file that `variable` names, or in the one of that name in ~/.aws; empty where there is
// none.
Profile read_profile(const Environment& environment, const std::string& variable, const std::string& name,
                     const std::string& section) {
  std::filesystem::path path = environment(variable).value_or("");
  if (path.empty()) {
    const auto home = environment("HOME");
    if (!home) return {};
    path = std::filesystem::path(*home) / ".aws" / name;
  }
  std::error_code code;
  if (!std::filesystem::exists(path, code)) return {};
  constexpr std::uint64_t kMostBytes = 1U << 20;
  return profile_from(read_file(path, kMostBytes), section);
}

// The first of the variables that is set, else the profile's value, else `otherwise`.
std::string choose(const Environment& environment, std::initializer_list<const char*> variables,
                   const Profile& profile, const std::string& key, const std::string& otherwise) {
  for (const char* variable : variables) {
    if (const auto value = environment(variable); value && !value->empty()) return *value;
  }
  const auto found = profile.find(key);
  return found == profile.end() ? otherwise : found->second;
}

void choose_keys(const Environment& environment, const std::string& profile_name, S3Access& access) {
  access.key_id = environment("AWS_ACCESS_KEY_ID").value_or("");
  access.secret = environment("AWS_SECRET_ACCESS_KEY").value_or("");
  access.session_token = environment("AWS_SESSION_TOKEN").value_or("");
  std::string place = "AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY";
  if (access.key_id.empty() && access.secret.empty()) {
    Profile keys = read_profile(environment, "AWS_SHARED_CREDENTIALS_FILE", "credentials", profile_name);
    access.key_id = keys["aws_access_key_id"];
    access.secret = keys["aws_secret_access_key"];
    access.session_token = keys["aws_session_token"];
    place = fmt::format("aws_access_key_id and aws_secret_access_key of the profile '{}'", profile_name);
  }
  if (access.key_id.empty() != access.secret.empty())
    throw ConfigError(fmt::format("s3: of {} only one is there: give both", place));
}

}  // namespace

Environment environment_of_process() {
  return [](const std::string& name) -> std::optional<std::string> {
    const char* value = std::getenv(name.c_str());  // NOLINT(concurrency-mt-unsafe): nobody sets it
    return value == nullptr ? std::nullopt : std::optional<std::string>(value);
  };
}

Profile profile_from(std::string_view text, std::string_view name) {
  Profile profile;
  bool is_it = false;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    const std::string_view line = trimmed(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
    if (line.empty() || line.front() == '#' || line.front() == ';') continue;
    if (line.front() == '[') {
      is_it = line.back() == ']' && trimmed(line.substr(1, line.size() - 2)) == name;
      continue;
    }
    const std::size_t equals = line.find('=');
    if (is_it && equals != std::string_view::npos)
      profile.emplace(trimmed(line.substr(0, equals)), trimmed(line.substr(equals + 1)));
  }
  return profile;
}

S3Access s3_access(const Environment& environment) {
  const std::string name = environment("AWS_PROFILE").value_or("default");
  // The files differ in how they call sections.
  const Profile config =
      read_profile(environment, "AWS_CONFIG_FILE", "config", name == "default" ? name : "profile " + name);
  S3Access access;
  choose_keys(environment, name, access);
  access.region = choose(environment, {"AWS_REGION", "AWS_DEFAULT_REGION"}, config, "region", access.region);
  access.endpoint =
      choose(environment, {"AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL"}, config, "endpoint_url", "");
  access.certificates = choose(environment, {"AWS_CA_BUNDLE"}, config, "ca_bundle", "");
  while (access.endpoint.ends_with('/')) access.endpoint.pop_back();
  if (!access.endpoint.empty() && !access.endpoint.starts_with("http://") &&
      !access.endpoint.starts_with("https://")) {
    throw ConfigError(fmt::format(
        "s3: the endpoint '{}' (AWS_ENDPOINT_URL, or endpoint_url of ~/.aws/config) is no address: it is to "
        "be like https://s3.example.org or http://127.0.0.1:9000",
        access.endpoint));
  }
  const std::string style = choose(environment, {}, config, "addressing_style", "auto");
  access.is_path_style = style == "path" || (style != "virtual" && !access.endpoint.empty());
  return access;
}

}  // namespace rookery
