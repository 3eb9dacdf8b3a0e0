#include "trainer/storage/remote/remote_file.hpp"

#include <algorithm>
#include <charconv>
#include <string_view>

#include "models/base/error.hpp"
#include "models/base/fnv.hpp"
#include "models/base/libraries/format.hpp"
#include "models/base/text.hpp"

namespace rookery {
namespace {

constexpr int kWhole = 200;
constexpr int kPart = 206;
constexpr int kNoSuchPart = 416;

// "bytes 0-99/1234", or "bytes */1234".
struct ContentRange {
  std::uint64_t first = 0, last = 0, size = 0;
};

std::optional<ContentRange> content_range_from(std::string_view text) {
  const auto take = [&](std::string_view word) {
    const bool is_next = text.starts_with(word);
    if (is_next) text.remove_prefix(word.size());
    return is_next;
  };
  const auto number = [&](std::uint64_t& to) {
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), to);
    text.remove_prefix(static_cast<std::size_t>(end - text.data()));
    return error == std::errc();
  };
  ContentRange range;
  const bool is_one = take("bytes ") &&
                      (take("*") || (number(range.first) && take("-") && number(range.last))) && take("/") &&
                      number(range.size) && text.empty();
  return is_one ? std::optional(range) : std::nullopt;
}

// Listings and answers differ in quotes.
std::string bare(std::string_view etag) {
  if (etag.starts_with("W/")) etag.remove_prefix(2);
  if (etag.size() >= 2 && etag.front() == '"' && etag.back() == '"') etag = etag.substr(1, etag.size() - 2);
  return std::string(etag);
}

class RemoteFile : public RandomFile {
 public:
  RemoteFile(HttpRequest request, std::uint64_t bytes, std::string_view etag, Refuse refuse)
      : RandomFile(request.shown),
        request_(std::move(request)),
        bytes_(bytes),
        etag_(bare(etag)),
        refuse_(refuse) {}

  std::uint64_t size() const override { return bytes_; }
  std::uint64_t version() const override {
    Fnv1a version;
    version.add_unit(bytes_);
    version.add(etag_);
    return version.value();
  }
  bool is_far() const override { return true; }

  void read(std::uint64_t offset, std::span<std::byte> into) const override {
    if (into.empty()) return;
    HttpRequest request = request_;
    request.range = ByteRange{offset, into.size()};
    request.most_bytes = into.size();
    const HttpAnswer answer = exchange(request);
    if (answer.status != kPart && answer.status != kWhole) {
      if (answer.status != kNoSuchPart) refuse_(request, answer);
      throw DataError(
          fmt::format("{}: has changed: it is shorter than the {} bytes that it had", name(), bytes_));
    }
    check(answer, offset, into.size());
    const auto body = std::as_bytes(std::span(answer.body));
    std::copy(body.begin(), body.end(), into.begin());
  }

 private:
  void check(const HttpAnswer& answer, std::uint64_t offset, std::size_t bytes) const {
    const std::string etag = bare(answer.etag);
    if (!etag.empty() && !etag_.empty() && etag != etag_) {
      throw DataError(fmt::format("{}: has changed while it was in use (ETag {}, now {}): begin again",
                                  name(), printable(etag_, kMostOfAName), printable(etag, kMostOfAName)));
    }
    const bool is_all = answer.status == kWhole && offset == 0 && bytes == bytes_;
    const auto range = content_range_from(answer.content_range);
    if (!is_all && (!range || range->first != offset || range->size != bytes_)) {
      throw DataError(fmt::format(
          "{}: the server was asked for bytes {} to {} of {}, and answers {} with the range '{}'", name(),
          offset, offset + bytes - 1, bytes_, answer.status, printable(answer.content_range, kMostOfAName)));
    }
    if (answer.body.size() != bytes) {
      throw DataError(fmt::format("{}: the server was asked for {} bytes from {} on, and sends {}", name(),
                                  bytes, offset, answer.body.size()));
    }
  }

  HttpRequest request_;
  std::uint64_t bytes_;
  std::string etag_;
  Refuse refuse_;
};

}  // namespace

void refuse_http(const HttpRequest& request, const HttpAnswer& answer) {
  constexpr int kNotFound = 404;
  throw DataError(fmt::format("{}: {} (the server answers {})", request.shown,
                              answer.status == kNotFound ? "there is no such file" : "cannot be read",
                              answer.status));
}

SharedFile open_remote_file(HttpRequest request, Refuse refuse) {
  HttpRequest probe = request;
  probe.range = ByteRange{0, 1};
  probe.most_bytes = 1;
  const HttpAnswer answer = exchange(probe);
  const auto range = content_range_from(answer.content_range);
  if (answer.status == kWhole && answer.body.empty())
    return remote_file(std::move(request), 0, answer.etag, refuse);
  // A file of no bytes has no first one.
  if ((answer.status == kPart && range) || (answer.status == kNoSuchPart && range && range->size == 0))
    return remote_file(std::move(request), range->size, answer.etag, refuse);
  if (answer.status != kPart && answer.status != kWhole && answer.status != kNoSuchPart)
    refuse(probe, answer);
  throw DataError(
      fmt::format("{}: the server was asked for the first byte, and answers {} with the range '{}'",
                  request.shown, answer.status, printable(answer.content_range, kMostOfAName)));
}

SharedFile remote_file(HttpRequest request, std::uint64_t bytes, const std::string& etag, Refuse refuse) {
  return std::make_shared<RemoteFile>(std::move(request), bytes, etag, refuse);
}

}  // namespace rookery
