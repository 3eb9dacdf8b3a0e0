#include "trainer/data/tensors/npy.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <bit>
#include <charconv>
#include <cstring>
#include <optional>
#include <string_view>
#include <vector>

#include "models/base/error.hpp"
#include "models/base/text.hpp"
#include "trainer/data/readers.hpp"
#include "trainer/storage/byte_source.hpp"

namespace rookery {
namespace {

static_assert(std::endian::native == std::endian::little);

constexpr std::string_view kMagic = "\x93NUMPY";
constexpr std::size_t kMostHeader = 64U << 10;

// What numbers there may be: how NumPy calls them, and how many bytes they have.
enum class Number : std::uint8_t { kF32, kF64, kI8, kI16, kI32, kI64, kU8, kU16, kU32, kBool };
struct NumberName {
  std::string_view name;
  Number number;
  std::size_t bytes;
};
constexpr std::array<NumberName, 10> kNumbers{{{"<f4", Number::kF32, 4},
                                               {"<f8", Number::kF64, 8},
                                               {"|i1", Number::kI8, 1},
                                               {"<i2", Number::kI16, 2},
                                               {"<i4", Number::kI32, 4},
                                               {"<i8", Number::kI64, 8},
                                               {"|u1", Number::kU8, 1},
                                               {"<u2", Number::kU16, 2},
                                               {"<u4", Number::kU32, 4},
                                               {"|b1", Number::kBool, 1}}};

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
  void skip_blanks() { text_.remove_prefix(std::min(text_.find_first_not_of(" \n\0"), text_.size())); }
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

std::string read_header(ByteSource& source) {
  constexpr std::size_t kFixed = 8;  // magic number and version
  const auto fill = [&](std::span<std::byte> into) {
    if (source.read(into) != into.size()) throw DataError("ends within its header");
  };
  std::array<std::byte, kFixed> begin{};
  if (source.read(begin) != kFixed || std::memcmp(begin.data(), kMagic.data(), kMagic.size()) != 0)
    throw DataError("does not begin as a file .npy does");
  const bool is_short = begin[kMagic.size()] == std::byte{1};
  std::uint32_t length = 0;
  fill(std::as_writable_bytes(std::span(&length, 1)).first(is_short ? 2 : 4));
  if (length > kMostHeader) throw DataError(fmt::format("has a header of {} bytes", length));
  std::string text(length, '\0');
  fill(std::as_writable_bytes(std::span(text)));
  return text;
}

template <typename From, typename To>
void convert(std::span<const std::byte> bytes, To* to, To scale) {
  for (std::size_t i = 0; i < bytes.size() / sizeof(From); ++i) {
    From number{};
    std::memcpy(&number, bytes.data() + i * sizeof(From), sizeof(From));
    to[i] = static_cast<To>(number) / scale;
  }
}

void convert(Number number, std::span<const std::byte> bytes, TensorView to, std::size_t done, float scale) {
  if (to.type.dtype == DType::kF32) {
    float* floats = to.as<float>().data() + done;
    if (number == Number::kF32) return convert<float, float>(bytes, floats, 1);
    if (number == Number::kF64) return convert<double, float>(bytes, floats, 1);
    return convert<std::uint8_t, float>(bytes, floats, scale);
  }
  std::int64_t* integers = to.as<std::int64_t>().data() + done;
  switch (number) {
    case Number::kI8:
      return convert<std::int8_t, std::int64_t>(bytes, integers, 1);
    case Number::kI16:
      return convert<std::int16_t, std::int64_t>(bytes, integers, 1);
    case Number::kI32:
      return convert<std::int32_t, std::int64_t>(bytes, integers, 1);
    case Number::kI64:
      return convert<std::int64_t, std::int64_t>(bytes, integers, 1);
    case Number::kU16:
      return convert<std::uint16_t, std::int64_t>(bytes, integers, 1);
    case Number::kU32:
      return convert<std::uint32_t, std::int64_t>(bytes, integers, 1);
    default:
      return convert<std::uint8_t, std::int64_t>(bytes, integers, 1);
  }
}

const NumberName& number_of(const Header& header) {
  const auto* found = std::ranges::find(kNumbers, header.descr(), &NumberName::name);
  if (found == kNumbers.end()) {
    throw DataError(fmt::format("has numbers of type '{}': save it as float32, int64 or uint8 (astype)",
                                printable(header.descr(), kMostOfAName)));
  }
  if (header.is_fortran())
    throw DataError("lies in Fortran's order: save what numpy.ascontiguousarray makes of it");
  return *found;
}

// How many numbers there are, which are as many as the file has bytes for.
std::uint64_t count_of(const Header& header, std::size_t number_bytes, std::uint64_t data_bytes) {
  std::uint64_t count = 1;
  for (const std::int64_t dim : header.shape()) {
    // A product that is too large stays so, but for a factor of 0.
    const auto factor = static_cast<std::uint64_t>(dim);
    if (factor != 0 && count > kMaxDataBytes / factor)
      throw DataError("its header gives more than it can hold");
    count *= factor;
  }
  if (count * number_bytes != data_bytes) {
    throw DataError(fmt::format("has {} bytes of numbers where its header says {}: an incomplete copy?",
                                data_bytes, count * number_bytes));
  }
  return count;
}

Tensor read(const SharedFile& file, float scale) {
  if (file->size() > kMaxDataBytes)
    throw DataError(fmt::format("has more than the {} bytes that a data set may have", kMaxDataBytes));
  ByteSource source(file, kMaxDataBytes);
  const std::string text = read_header(source);
  Header header(text);
  header.read();
  const NumberName& number = number_of(header);
  const std::uint64_t count = count_of(header, number.bytes, file->size() - source.offset());
  const bool is_float = number.number == Number::kF32 || number.number == Number::kF64;
  const bool is_pixels = number.number == Number::kU8 && header.shape().size() >= 2;
  Tensor tensor(is_float || is_pixels ? DType::kF32 : DType::kI64, Shape(header.shape()));
  std::vector<std::byte> chunk(std::min<std::uint64_t>(1U << 20, count * number.bytes));
  for (std::size_t done = 0; done < count;) {
    const std::size_t got = source.read(chunk);
    if (got == 0) throw DataError("became shorter while it was read");
    convert(number.number, std::span(chunk).first(got), tensor.view(), done, scale);
    done += got / number.bytes;
  }
  return tensor;
}

}  // namespace

Tensor read_npy(const SharedFile& file, float scale) {
  return with_context(file->name(), [&] { return read(file, scale); });
}

}  // namespace rookery
