// Whom a bucket is asked for, and as whom: what the AWS command line and SDKs are told by, too.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>

namespace rookery {

struct S3Access {
  std::string key_id, secret;  // both empty: requests are not signed, which serves for what is public
  std::string session_token;   // of keys that are lent for a while
  std::string region = "us-east-1";
  std::string endpoint;        // "https://HOST:PORT"; empty: that of AWS in this region
  bool is_path_style = false;  // ENDPOINT/BUCKET/KEY, not BUCKET.ENDPOINT/KEY
  std::string certificates;    // a file of those that are trusted; empty: the system's
};

// An environment variable's value; none where it is not set.
using Environment = std::function<std::optional<std::string>(const std::string& name)>;
Environment environment_of_process();

// From AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY and AWS_SESSION_TOKEN, else from the profile AWS_PROFILE
// ("default") of AWS_SHARED_CREDENTIALS_FILE (~/.aws/credentials); AWS_REGION, AWS_DEFAULT_REGION,
// AWS_ENDPOINT_URL_S3, AWS_ENDPOINT_URL, AWS_CA_BUNDLE, else `region`, `endpoint_url`, `ca_bundle` and
// `addressing_style` of the profile in AWS_CONFIG_FILE (~/.aws/config). An endpoint of one's own is asked in
// path style, unless `addressing_style` says otherwise. ConfigError for a half key, or an endpoint that is no
// address.
S3Access s3_access(const Environment& environment = environment_of_process());

// The keys of a section "[NAME]" of such a file; indented ones as if they were not.
std::map<std::string, std::string> profile_from(std::string_view text, std::string_view name);

}  // namespace rookery
