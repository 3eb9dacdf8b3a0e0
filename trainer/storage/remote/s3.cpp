#include "trainer/storage/remote/s3.hpp"

#include <algorithm>
#include <string_view>

#include "models/base/error.hpp"
#include "models/base/libraries/format.hpp"
#include "trainer/storage/remote/http.hpp"
#include "trainer/storage/remote/remote_file.hpp"

namespace rookery {
namespace {

constexpr std::string_view kScheme = "s3://";
constexpr int kDone = 200;
constexpr std::size_t kMostListing = 16U << 20;   // of a thousand objects, whose keys have up to 1024 bytes
constexpr std::size_t kMostObjects = 10'000'000;  // of a data set
constexpr std::size_t kCompared = 4U << 20;       // at once

std::string advice_for(const HttpRequest& request, const HttpAnswer& answer, const std::string& code) {
  constexpr int kMoved = 301;
  constexpr int kForbidden = 403;
  if (answer.status == kMoved || code == "AuthorizationHeaderMalformed" || code == "PermanentRedirect")
    return "; is the bucket in another region? Set AWS_REGION";
  if (answer.status != kForbidden) return "";
  if (!request.signature)
    return "; there are no credentials in AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY or ~/.aws/credentials";
  return fmt::format(
      "; the key is '{}', from AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY or ~/.aws/credentials: is it "
      "right, "
      "may it do this, and is the clock right?",
      request.signature->key_id);
}

[[noreturn]] void refuse_s3(const HttpRequest& request, const HttpAnswer& answer) {
  const auto [code, message] = s3_problem_from(answer.body);
  throw DataError(fmt::format("{}: the server answers {}{}{}{}{}", request.shown, answer.status,
                              code.empty() ? "" : " " + code, message.empty() ? "" : ": ", message,
                              advice_for(request, answer, code)));
}

bool is_same(const RandomFile& a, const RandomFile& b) {
  if (a.size() != b.size()) return false;
  std::vector<std::byte> of_a, of_b;
  for (std::uint64_t at = 0; at < a.size(); at += kCompared) {
    const std::size_t bytes = std::min<std::uint64_t>(kCompared, a.size() - at);
    of_a.resize(bytes);
    of_b.resize(bytes);
    a.read(at, of_a);
    b.read(at, of_b);
    if (of_a != of_b) return false;
  }
  return true;
}

}  // namespace

S3Address S3Address::of(const std::string& address) {
  const std::string_view rest = std::string_view(address).substr(kScheme.size());
  const std::size_t slash = std::min(rest.find('/'), rest.size());
  S3Address parts{std::string(rest.substr(0, slash)),
                  std::string(rest.substr(std::min(slash + 1, rest.size())))};
  constexpr std::size_t kLeast = 3;
  const bool is_name = std::ranges::all_of(parts.bucket, [](char letter) {
    return (letter >= 'a' && letter <= 'z') || (letter >= 'A' && letter <= 'Z') ||
           (letter >= '0' && letter <= '9') || letter == '.' || letter == '-' || letter == '_';
  });
  if (!address.starts_with(kScheme) || parts.bucket.size() < kLeast || !is_name) {
    throw ConfigError(fmt::format(
        "{}: is not s3://BUCKET/KEY, where a bucket's name has three letters, digits, '.' or '-' at least",
        address));
  }
  return parts;
}

S3Address S3Address::of_folder(const std::string& address) {
  S3Address folder = of(address);
  while (folder.key.ends_with('/')) folder.key.pop_back();
  if (!folder.key.empty()) folder.key += '/';
  return folder;
}

HttpRequest S3::request(const S3Address& address, const std::string& query) const {
  const std::string endpoint = access_.endpoint.empty()
                                   ? fmt::format("https://s3.{}.amazonaws.com", access_.region)
                                   : access_.endpoint;
  const std::string key = percent_encoded(address.key, "/");
  HttpRequest request;
  // No certificate is for names with further dots before the server's.
  const bool has_dots = endpoint.starts_with("https://") && address.bucket.find('.') != std::string::npos;
  if (access_.is_path_style || has_dots) {
    request.url = fmt::format("{}/{}/{}", endpoint, address.bucket, key);
  } else {
    const std::size_t host = endpoint.find("://") + 3;
    request.url =
        fmt::format("{}{}.{}/{}", endpoint.substr(0, host), address.bucket, endpoint.substr(host), key);
  }
  if (!query.empty()) request.url += "?" + query;
  request.shown = address.text();
  request.follows_redirects = false;  // the signature is for this server
  request.certificates = access_.certificates;
  if (!access_.key_id.empty()) {
    request.signature = Signature{access_.key_id, access_.secret, access_.region};
    request.headers.emplace_back("x-amz-content-sha256: UNSIGNED-PAYLOAD");
    if (!access_.session_token.empty())
      request.headers.push_back("x-amz-security-token: " + access_.session_token);
  }
  return request;
}

std::vector<S3Object> S3::list(const S3Address& prefix) const {
  std::vector<S3Object> objects;
  std::string continuation;
  do {
    // What is signed is the query in the order of its names.
    std::string query;
    if (!continuation.empty()) query = "continuation-token=" + percent_encoded(continuation) + "&";
    query += "encoding-type=url&list-type=2&prefix=" + percent_encoded(prefix.key);
    HttpRequest asked = request({prefix.bucket, ""}, query);
    asked.shown = prefix.text();
    asked.most_bytes = kMostListing;
    const HttpAnswer answer = exchange(asked);
    if (answer.status != kDone) refuse_s3(asked, answer);
    S3Listing page = with_context(prefix.text(), [&] { return s3_listing_from(answer.body); });
    std::ranges::move(page.objects, std::back_inserter(objects));
    if (objects.size() > kMostObjects)
      throw DataError(fmt::format("{}: has more than {} objects", prefix.text(), kMostObjects));
    if (!continuation.empty() && page.continuation == continuation)
      throw DataError(fmt::format("{}: the list of objects does not come to an end", prefix.text()));
    continuation = std::move(page.continuation);
  } while (!continuation.empty());
  std::ranges::sort(objects, {}, &S3Object::key);
  return objects;
}

SharedFile S3::open(const S3Address& address) const {
  return open_remote_file(request(address), refuse_s3);
}

SharedFile S3::open(const std::string& bucket, const S3Object& object) const {
  return remote_file(request({bucket, object.key}), object.bytes, object.etag, refuse_s3);
}

void S3::upload(const RandomFile& file, const S3Address& address) const {
  if (file.size() > kMostUpload) {
    throw DataError(fmt::format("{}: has {} bytes, more than the {} that one request may put into a bucket",
                                file.name(), file.size(), kMostUpload));
  }
  HttpRequest put = request(address);
  put.upload = HttpRequest::Upload{
      file.size(), [&](std::uint64_t offset, std::span<std::byte> into) { file.read(offset, into); }};
  const HttpAnswer answer = exchange(put);
  if (answer.status != kDone) refuse_s3(put, answer);
  if (!is_same(file, *open(address)))
    throw DataError(fmt::format("{}: is not what was put there: upload it again", address.text()));
}

void S3::remove(const S3Address& address) const {
  constexpr int kNoContent = 204;
  constexpr int kNotFound = 404;
  HttpRequest asked = request(address);
  asked.removes = true;
  const HttpAnswer answer = exchange(asked);
  if (answer.status != kDone && answer.status != kNoContent && answer.status != kNotFound)
    refuse_s3(asked, answer);
}

}  // namespace rookery
