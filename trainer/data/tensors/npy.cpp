#include "trainer/data/tensors/npy.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <charconv>
#include <cstring>
#include <string_view>
#include <utility>
#include <vector>

#include "models/base/error.hpp"
#include "models/base/libraries/format.hpp"
#include "models/base/text.hpp"

namespace rookery {
namespace {

static_assert(std::endian::native == std::endian::little);

constexpr std::string_view kMagic = "\x93NUMPY";
constexpr std::size_t kMostHeader = 64U << 10;
constexpr std::uint64_t kMostNumbers = std::uint64_t{1} << 48;  // whose bytes can be counted

template <typename From, typename To>
void convert(std::span<const std::byte> from, std::byte* to, float scale) {
  for (std::size_t i = 0; i < from.size() / sizeof(From); ++i) {
    From stored{};
    std::memcpy(&stored, from.data() + i * sizeof(From), sizeof(From));
    const To number = static_cast<To>(stored) / static_cast<To>(scale);
    std::memcpy(to + i * sizeof(To), &number, sizeof(To));
  }
}

// What numbers there may be: how NumPy calls them, and what becomes of them.
struct NumberKind {
  std::string_view name;
  std::size_t bytes;
  DType dtype;
  StoredTensor::Convert convert;
};
constexpr std::array<NumberKind, 10> kNumbers{{{"<f4", 4, DType::kF32, nullptr},
                                               {"<f8", 8, DType::kF32, convert<double, float>},
                                               {"|i1", 1, DType::kI64, convert<std::int8_t, std::int64_t>},
                                               {"<i2", 2, DType::kI64, convert<std::int16_t, std::int64_t>},
                                               {"<i4", 4, DType::kI64, convert<std::int32_t, std::int64_t>},
                                               {"<i8", 8, DType::kI64, nullptr},
                                               {"|u1", 1, DType::kI64, convert<std::uint8_t, std::int64_t>},
                                               {"<u2", 2, DType::kI64, convert<std::uint16_t, std::int64_t>},
                                               {"<u4", 4, DType::kI64, convert<std::uint32_t, std::int64_t>},
                                               {"|b1", 1, DType::kI64, convert<std::uint8_t, std::int64_t>}}};
constexpr NumberKind kPixels{"|u1", 1, DType::kF32, convert<std::uint8_t, float>};

// The header: {'descr': '<f4', 'fortran_order': False, 'shape': (3, 4), }
class Header {
 public:
  explicit Header(std::string_view text) : text_(text) {}

  void read() {
    expect("{");
    while (!take("}")) {
      const std::string_view key = quoted();
      expect(":");
      if (key == "descr") {
        descr_ = quoted();
      } else if (key == "fortran_order") {
        is_fortran_ = take("True");
        if (!is_fortran_) expect("False");
      } else if (key == "shape") {
        read_shape();
      } else {
        fail();
      }
      if (!take(",")) {
        expect("}");
        break;
      }
    }
    skip_blanks();
    if (!text_.empty() || !has_shape_ || descr_.empty()) fail();
  }

  std::string_view descr() const { return descr_; }
  bool is_fortran() const { return is_fortran_; }
  const std::vector<std::int64_t>& shape() const { return shape_; }

 private:
  [[noreturn]] static void fail() { throw DataError("its header is none of an array of numbers"); }
  void skip_blanks() { text_.remove_prefix(std::min(text_.find_first_not_of(" \n"), text_.size())); }
  bool take(std::string_view word) {
    skip_blanks();
    const bool is_next = text_.starts_with(word);
    if (is_next) text_.remove_prefix(word.size());
    return is_next;
  }
  void expect(std::string_view word) {
    if (!take(word)) fail();
  }
  std::string_view quoted() {
    expect("'");
    const std::size_t end = text_.find('\'');
    if (end == std::string_view::npos) fail();
    const std::string_view inside = text_.substr(0, end);
    text_.remove_prefix(end + 1);
    return inside;
  }
  void read_shape() {
    expect("(");
    has_shape_ = true;
    while (!take(")")) {
      skip_blanks();
      std::int64_t dim = 0;
      const auto [end, error] = std::from_chars(text_.data(), text_.data() + text_.size(), dim);
      if (error != std::errc() || dim < 0 || shape_.size() == kMaxRank) fail();
      text_.remove_prefix(static_cast<std::size_t>(end - text_.data()));
      shape_.push_back(dim);
      if (!take(",")) {
        expect(")");
        break;
      }
    }
  }

  std::string_view text_;
  std::string_view descr_;
  bool is_fortran_ = false;
  bool has_shape_ = false;
  std::vector<std::int64_t> shape_;
};

// The header's text, and where it ends.
std::pair<std::string, std::uint64_t> read_header(const RandomFile& file) {
  constexpr std::uint64_t kFixed = 8;  // magic number and version
  const auto fill = [&](std::uint64_t offset, std::span<std::byte> into) {
    if (offset + into.size() > file.size()) throw DataError("ends within its header");
    file.read(offset, into);
  };
  std::array<std::byte, kFixed> begin{};
  if (file.size() >= kFixed) fill(0, begin);
  if (std::memcmp(begin.data(), kMagic.data(), kMagic.size()) != 0)
    throw DataError("does not begin as a file .npy does");
  const std::uint64_t length_bytes = begin[kMagic.size()] == std::byte{1} ? 2 : 4;
  std::uint32_t length = 0;
  fill(kFixed, std::as_writable_bytes(std::span(&length, 1)).first(length_bytes));
  if (length > kMostHeader) throw DataError(fmt::format("has a header of {} bytes", length));
  std::string text(length, '\0');
  fill(kFixed + length_bytes, std::as_writable_bytes(std::span(text)));
  return {std::move(text), kFixed + length_bytes + length};
}

const NumberKind& kind_of(const Header& header) {
  const auto* found = std::ranges::find(kNumbers, header.descr(), &NumberKind::name);
  if (found == kNumbers.end()) {
    throw DataError(fmt::format("has numbers of type '{}': save it as float32, int64 or uint8 (astype)",
                                printable(header.descr(), kMostOfAName)));
  }
  if (header.is_fortran())
    throw DataError("lies in Fortran's order: save what numpy.ascontiguousarray makes of it");
  return found->name == kPixels.name && header.shape().size() >= 2 ? kPixels : *found;
}

// The header says as many numbers as the file has bytes for.
void check_count(const Header& header, std::size_t number_bytes, std::uint64_t data_bytes) {
  std::uint64_t count = 1;
  for (const std::int64_t dim : header.shape()) {
    // A product that is too large stays so, but for a factor of 0.
    const auto factor = static_cast<std::uint64_t>(dim);
    if (factor != 0 && count > kMostNumbers / factor)
      throw DataError("its header gives more than it can hold");
    count *= factor;
  }
  if (count * number_bytes != data_bytes) {
    throw DataError(fmt::format("has {} bytes of numbers where its header says {}: an incomplete copy?",
                                data_bytes, count * number_bytes));
  }
}

StoredTensor read(SharedFile file, float scale) {
  const auto [text, begin] = read_header(*file);
  Header header(text);
  header.read();
  const NumberKind& kind = kind_of(header);
  check_count(header, kind.bytes, file->size() - begin);
  return {.type = {kind.dtype, Shape(header.shape())},
          .file = std::move(file),
          .offset = begin,
          .number_bytes = kind.bytes,
          .convert = kind.convert,
          .scale = &kind == &kPixels ? scale : 1};
}

}  // namespace

StoredTensor read_npy(const SharedFile& file, float scale) {
  return with_context(file->name(), [&] { return read(file, scale); });
}

}  // namespace rookery
