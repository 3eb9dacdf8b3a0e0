#include "trainer/storage/byte_source.hpp"

#include <zlib.h>

#include <algorithm>
#include <deque>
#include <future>
#include <new>
#include <vector>

#include "models/base/error.hpp"
#include "models/base/libraries/format.hpp"

namespace rookery {
namespace {

constexpr std::uint64_t kMaxDeflateRatio = 1032;  // a 258-byte match in two bits
constexpr std::size_t kNearPiece = 256U << 10;
constexpr std::size_t kMagicBytes = 2;

bool begins_as_gzip(std::span<const std::byte> bytes) {
  return bytes.size() >= kMagicBytes && bytes[0] == std::byte{0x1F} && bytes[1] == std::byte{0x8B};
}

// A file piece after piece. Of a far one several pieces are on their way.
class Pieces {
 public:
  explicit Pieces(SharedFile file) : file_(std::move(file)) {}

  const RandomFile& file() const { return *file_; }

  // Nothing at the end.
  std::span<const std::byte> next() {
    const int ahead = file_->is_far() ? kFarReadings : 1;
    while (std::ssize(coming_) < ahead && begun_ < file_->size()) begin_next();
    if (coming_.empty()) return {};
    at_hand_ = coming_.front().get();
    coming_.pop_front();
    return at_hand_;
  }

 private:
  void begin_next() {
    const std::size_t most = file_->is_far() ? kFarPiece : kNearPiece;
    const std::size_t bytes = std::min<std::uint64_t>(most, file_->size() - begun_);
    const auto policy = file_->is_far() ? std::launch::async : std::launch::deferred;
    coming_.push_back(std::async(policy, [file = file_, offset = begun_, bytes] {
      std::vector<std::byte> piece(bytes);
      file->read(offset, piece);
      return piece;
    }));
    begun_ += bytes;
  }

  SharedFile file_;
  std::uint64_t begun_ = 0;
  std::vector<std::byte> at_hand_;
  std::deque<std::future<std::vector<std::byte>>> coming_;
};

}  // namespace

class ByteSource::Stream {
 public:
  explicit Stream(SharedFile file) : pieces_(std::move(file)), left_(pieces_.next()) {
    const bool is_gzip = is_gzip_name(name());
    if (begins_as_gzip(left_) != is_gzip) {
      throw DataError(fmt::format(
          "{}: {}", name(),
          is_gzip ? "its name says gzip, its content does not" : "is gzip: its name must end in .gz"));
    }
    constexpr int kGzip = MAX_WBITS + 16;
    if (is_gzip && inflateInit2(&inflater_, kGzip) != Z_OK) throw std::bad_alloc();
    is_inflating_ = is_gzip;
  }
  ~Stream() {
    if (is_inflating_) inflateEnd(&inflater_);
  }
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;

  const std::string& name() const { return pieces_.file().name(); }
  std::uint64_t file_bytes() const { return pieces_.file().size(); }
  bool is_gzip() const { return is_inflating_; }

  // Some bytes; none at the end. `before`: how many were there before these, for messages.
  std::size_t read(std::span<std::byte> into, std::uint64_t before) {
    if (!is_inflating_) {
      if (left_.empty()) left_ = pieces_.next();
      const std::size_t count = std::min(left_.size(), into.size());
      std::copy_n(left_.begin(), count, into.begin());
      left_ = left_.subspan(count);
      return count;
    }
    return inflate_some(into, before);
  }

 private:
  std::size_t inflate_some(std::span<std::byte> into, std::uint64_t before) {
    std::size_t made = 0;
    while (made == 0 && !is_at_end_) {
      if (left_.empty()) left_ = pieces_.next();
      if (left_.empty()) fail(before, "unexpected end of file");
      // Both counters are of 32 bits.
      constexpr std::size_t kMostAtOnce = 1U << 30;
      inflater_.next_in = reinterpret_cast<Bytef*>(const_cast<std::byte*>(left_.data()));
      inflater_.avail_in = static_cast<uInt>(std::min(left_.size(), kMostAtOnce));
      inflater_.next_out = reinterpret_cast<Bytef*>(into.data());
      inflater_.avail_out = static_cast<uInt>(std::min(into.size(), kMostAtOnce));
      const uInt in_before = inflater_.avail_in;
      const uInt out_before = inflater_.avail_out;
      const int code = inflate(&inflater_, Z_NO_FLUSH);
      left_ = left_.subspan(in_before - inflater_.avail_in);
      made = out_before - inflater_.avail_out;
      if (code == Z_STREAM_END) {
        end_member();
      } else if (code != Z_OK) {
        fail(before + made, inflater_.msg != nullptr ? inflater_.msg : "damaged");
      }
    }
    return made;
  }

  // Another one may follow; what is none is no more looked at, as gunzip does. Where a piece ends within the
  // two bytes that tell, the first has to do.
  void end_member() {
    if (left_.empty()) left_ = pieces_.next();
    const bool begins_another = left_.size() == 1 ? left_[0] == std::byte{0x1F} : begins_as_gzip(left_);
    is_at_end_ = !begins_another;
    if (begins_another) inflateReset(&inflater_);
  }

  [[noreturn]] void fail(std::uint64_t at, const char* reason) const {
    throw DataError(fmt::format("{}: after {} bytes: {}: an incomplete copy?", name(), at, reason));
  }

  Pieces pieces_;
  std::span<const std::byte> left_;  // of the piece at hand
  z_stream inflater_{};
  bool is_inflating_ = false;
  bool is_at_end_ = false;
};

bool is_gzip_name(std::string_view name) {
  return name.ends_with(".gz") || name.ends_with(".tgz");
}

ByteSource::ByteSource(SharedFile file, std::uint64_t max_bytes)
    : max_bytes_(max_bytes), stream_(std::make_unique<Stream>(std::move(file))) {}
ByteSource::~ByteSource() = default;

std::size_t ByteSource::read(std::span<std::byte> into) {
  std::size_t filled = 0;
  while (filled < into.size()) {
    const std::size_t got = stream_->read(into.subspan(filled), offset_);
    if (got == 0) break;
    filled += got;
    offset_ += got;
    if (offset_ > max_bytes_) {
      throw DataError(
          fmt::format("{}: holds more than the {} bytes that a data set may have", name(), max_bytes_));
    }
  }
  return filled;
}

std::uint64_t ByteSource::capacity() const {
  const std::uint64_t ratio = stream_->is_gzip() ? kMaxDeflateRatio : 1;
  const std::uint64_t bytes = stream_->file_bytes();
  return bytes > max_bytes_ / ratio ? max_bytes_ : bytes * ratio;
}

const std::string& ByteSource::name() const {
  return stream_->name();
}

}  // namespace rookery
