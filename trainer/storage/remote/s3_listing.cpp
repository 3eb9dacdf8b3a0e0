#include "trainer/storage/remote/s3_listing.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <optional>
#include <utility>

#include "models/base/error.hpp"
#include "models/base/libraries/format.hpp"
#include "models/base/parse.hpp"
#include "models/base/text.hpp"

namespace rookery {
namespace {

constexpr int kHex = 16;

// The content of the first element of this name, which has no attributes, and what follows it. Elements of
// one name do not lie in each other here.
struct Element {
  std::string_view content, rest;
};
std::optional<Element> element(std::string_view xml, std::string_view name) {
  const std::string begin = fmt::format("<{}>", name);
  const std::string end = fmt::format("</{}>", name);
  const std::size_t first = xml.find(begin);
  if (first == std::string_view::npos) return std::nullopt;
  xml.remove_prefix(first + begin.size());
  const std::size_t last = xml.find(end);
  if (last == std::string_view::npos) return std::nullopt;
  return Element{xml.substr(0, last), xml.substr(last + end.size())};
}

// The text that the five entities of XML, and those by number below 128, stand in.
std::string text_of(std::string_view content) {
  constexpr std::array<std::pair<std::string_view, char>, 5> kEntities{
      {{"&amp;", '&'}, {"&lt;", '<'}, {"&gt;", '>'}, {"&quot;", '"'}, {"&apos;", '\''}}};
  std::string text;
  while (!content.empty()) {
    const auto entity =
        std::ranges::find_if(kEntities, [&](const auto& each) { return content.starts_with(each.first); });
    if (entity != kEntities.end()) {
      text += entity->second;
      content.remove_prefix(entity->first.size());
      continue;
    }
    if (content.starts_with("&#")) {
      const bool is_hex = content.starts_with("&#x");
      const std::size_t begin = is_hex ? 3 : 2;
      unsigned number = 0;
      const auto [end, error] = std::from_chars(content.data() + begin, content.data() + content.size(),
                                                number, is_hex ? kHex : 10);
      const auto stop = static_cast<std::size_t>(end - content.data());
      constexpr unsigned kAscii = 128;
      if (error == std::errc() && stop < content.size() && content[stop] == ';' && number < kAscii) {
        text += static_cast<char>(number);
        content.remove_prefix(stop + 1);
        continue;
      }
    }
    text += content.front();
    content.remove_prefix(1);
  }
  return text;
}

std::string text_in(std::string_view xml, std::string_view name) {
  const auto found = element(xml, name);
  return found ? text_of(found->content) : std::string();
}

S3Object object_from(std::string_view xml) {
  S3Object object;
  object.key = percent_decoded(text_in(xml, "Key"));
  object.etag = text_in(xml, "ETag");
  object.modified = text_in(xml, "LastModified");
  const std::string size = text_in(xml, "Size");
  const auto bytes = number_from<std::uint64_t>(size);
  if (object.key.empty() || !bytes) {
    throw DataError(fmt::format("the list of objects has one with the key '{}' and the size '{}'",
                                printable(object.key, kMostOfAName), printable(size, kMostOfAName)));
  }
  object.bytes = *bytes;
  return object;
}

}  // namespace

S3Listing s3_listing_from(std::string_view xml) {
  if (xml.find("<ListBucketResult") == std::string_view::npos)
    throw DataError("the server's answer is no list of objects: is its endpoint one of S3?");
  S3Listing listing;
  if (text_in(xml, "IsTruncated") == "true") {
    listing.continuation = text_in(xml, "NextContinuationToken");
    if (listing.continuation.empty())
      throw DataError("the list of objects is cut short, and does not say how it goes on");
  }
  while (const auto contents = element(xml, "Contents")) {
    listing.objects.push_back(object_from(contents->content));
    xml = contents->rest;
  }
  return listing;
}

S3Problem s3_problem_from(std::string_view xml) {
  return {.code = printable(text_in(xml, "Code"), kMostOfAName),
          .message = printable(text_in(xml, "Message"), kMostOfAReason)};
}

std::string percent_decoded(std::string_view text) {
  std::string decoded;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '%') {
      decoded += text[i] == '+' ? ' ' : text[i];
      continue;
    }
    unsigned number = 0;
    const std::string_view digits = text.substr(i + 1, 2);
    const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), number, kHex);
    if (digits.size() != 2 || error != std::errc() || end != digits.data() + 2)
      throw DataError(fmt::format("'{}' has a '%' that is none", printable(text, kMostOfAName)));
    decoded += static_cast<char>(number);
    i += 2;
  }
  return decoded;
}

std::string percent_encoded(std::string_view text, std::string_view safe) {
  std::string encoded;
  for (const char letter : text) {
    const bool is_plain = (letter >= 'a' && letter <= 'z') || (letter >= 'A' && letter <= 'Z') ||
                          (letter >= '0' && letter <= '9') ||
                          std::string_view("-_.~").find(letter) != std::string_view::npos ||
                          safe.find(letter) != std::string_view::npos;
    encoded += is_plain ? std::string(1, letter) : fmt::format("%{:02X}", static_cast<unsigned char>(letter));
  }
  return encoded;
}

}  // namespace rookery
