// The index of a folder of images as text: a line each for classes, images and files that are none,
// and at the end the digest of all lines before.

#include <charconv>

#include "models/base/fnv.hpp"
#include "models/base/libraries/format.hpp"
#include "trainer/data/content_digest.hpp"
#include "trainer/data/images/image_index.hpp"

namespace rookery {
namespace {

constexpr std::string_view kFirstLine = "rookery images 2";

std::string digest_line(std::string_view lines) {
  return fmt::format("digest {:016x}\n", content_digest(lines));
}

// The words of a line, the last of which may have blanks.
class Words {
 public:
  explicit Words(std::string_view line) : rest_(line) {}

  std::string_view next() {
    const std::size_t end = std::min(rest_.find(' '), rest_.size());
    const std::string_view word = rest_.substr(0, end);
    rest_.remove_prefix(std::min(end + 1, rest_.size()));
    return word;
  }
  template <typename Number>
  Number number(int base = 10) {
    const std::string_view word = next();
    Number number{};
    const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), number, base);
    is_good_ = is_good_ && error == std::errc() && end == word.data() + word.size();
    return number;
  }
  std::string rest() const { return std::string(rest_); }
  bool is_good() const { return is_good_; }

 private:
  std::string_view rest_;
  bool is_good_ = true;
};

bool read_line(std::string_view line, ImageIndex& index) {
  Words words(line);
  const std::string_view kind = words.next();
  if (kind == "largest") {
    index.most_pixels = words.number<std::int64_t>();
    index.longest_side = words.number<std::int64_t>();
    index.most_bytes = words.number<std::uint64_t>();
  } else if (kind == "class") {
    index.classes.push_back(words.rest());
  } else if (kind == "version") {
    index.version = words.number<std::uint64_t>(16);
  } else if (kind == "image") {
    ImageFile& image = index.images.emplace_back();
    image.label = words.number<std::int64_t>();
    image.bytes = words.number<std::uint64_t>();
    image.digest = words.number<std::uint64_t>(16);
    image.offset = words.number<std::uint64_t>();
    image.path = words.rest();
    return words.is_good() && image.label >= 0 && image.label < std::ssize(index.classes);
  } else if (kind == "skipped") {
    const std::string rest = words.rest();
    const std::size_t tab = rest.find('\t');
    if (tab == std::string::npos) return false;
    index.skipped.push_back({rest.substr(0, tab), rest.substr(tab + 1)});
  } else {
    return false;
  }
  return words.is_good();
}

}  // namespace

std::string to_text(const ImageIndex& index) {
  fmt::memory_buffer text;
  const auto to = std::back_inserter(text);
  fmt::format_to(to, "{}\nversion {:016x}\nlargest {} {} {}\n", kFirstLine, index.version, index.most_pixels,
                 index.longest_side, index.most_bytes);
  for (const std::string& name : index.classes) fmt::format_to(to, "class {}\n", name);
  for (const ImageFile& image : index.images)
    fmt::format_to(to, "image {} {} {:016x} {} {}\n", image.label, image.bytes, image.digest, image.offset,
                   image.path);
  for (const ImageIndex::Skipped& file : index.skipped)
    fmt::format_to(to, "skipped {}\t{}\n", file.path, file.reason);
  const std::string lines = fmt::to_string(text);
  return lines + digest_line(lines);
}

std::optional<ImageIndex> image_index_from(std::string_view text) {
  const std::size_t digest_bytes = digest_line({}).size();
  if (text.size() < digest_bytes) return std::nullopt;
  std::string_view lines = text.substr(0, text.size() - digest_bytes);
  if (digest_line(lines) != text.substr(lines.size())) return std::nullopt;
  ImageIndex index;
  bool is_first = true;
  while (!lines.empty()) {
    const std::size_t end = lines.find('\n');
    if (end == std::string_view::npos) return std::nullopt;
    const std::string_view line = lines.substr(0, end);
    lines.remove_prefix(end + 1);
    if (is_first ? line != kFirstLine : !read_line(line, index)) return std::nullopt;
    is_first = false;
  }
  const bool has_all = !index.images.empty() && index.most_pixels > 0 && index.longest_side > 0;
  if (!has_all) return std::nullopt;
  return index;
}

}  // namespace rookery
