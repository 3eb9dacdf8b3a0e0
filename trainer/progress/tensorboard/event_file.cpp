#include "trainer/progress/tensorboard/event_file.hpp"

#include <fcntl.h>
#include <spdlog/spdlog.h>
#include <tensorboard_events.pb.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <boost/crc.hpp>
#include <cerrno>
#include <charconv>
#include <cmath>
#include <cstring>
#include <limits>
#include <system_error>

#include "models/base/error.hpp"
#include "models/base/files/file_calls.hpp"
#include "models/base/libraries/format.hpp"

namespace rookery {
namespace {

constexpr std::size_t kMostWaitingBytes = 1U << 20;
constexpr std::string_view kPrefix = "events.out.tfevents.";

std::chrono::microseconds since_1970() {
  return std::chrono::duration_cast<std::chrono::microseconds>(
      std::chrono::system_clock::now().time_since_epoch());
}

tensorboard::Event event_at(std::int64_t step) {
  tensorboard::Event event;
  event.set_wall_time(1e-6 * static_cast<double>(since_1970().count()));
  event.set_step(step);
  return event;
}

template <typename Number>
void append_number(std::string& bytes, Number number) {
  for (std::size_t i = 0; i < sizeof number; ++i) bytes += static_cast<char>(number >> (8 * i) & 0xff);
}

// Readers order files by name: the time, or a second after the newest that is there.
std::int64_t seconds_for_name(const std::filesystem::path& folder) {
  std::int64_t seconds = since_1970().count() / 1'000'000;
  std::error_code code;
  for (const auto& entry : std::filesystem::directory_iterator(folder, code)) {
    const std::string name = entry.path().filename().string();
    std::int64_t other = 0;
    if (name.starts_with(kPrefix) &&
        std::from_chars(name.data() + kPrefix.size(), name.data() + name.size(), other).ec == std::errc() &&
        other < 9'999'999'999)
      seconds = std::max(seconds, other + 1);
  }
  return seconds;
}

std::string host_name() {
  std::array<char, 256> name{};
  if (::gethostname(name.data(), name.size() - 1) != 0 || name[0] == '\0') return "localhost";
  return name.data();
}

}  // namespace

std::uint32_t masked_crc(std::string_view bytes) {
  boost::crc_optimal<32, 0x1EDC6F41, 0xFFFFFFFF, 0xFFFFFFFF, true, true> crc;
  crc.process_bytes(bytes.data(), bytes.size());
  const std::uint32_t sum = crc.checksum();
  return (sum >> 15 | sum << 17) + 0xa282ead8U;
}

EventFile::EventFile(const std::filesystem::path& folder, std::int64_t step)
    : path_(folder / fmt::format("{}{:010}.{}.{}", kPrefix, seconds_for_name(folder), host_name(), getpid())),
      descriptor_(
          file_calls().open(path_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_APPEND | O_CLOEXEC, 0644)) {
  if (descriptor_ < 0)
    throw DataError(fmt::format("{}: cannot create: {}", path_.string(), std::strerror(errno)));
  tensorboard::Event version = event_at(0);
  version.set_file_version("brain.Event:2");
  append(version.SerializeAsString());
  tensorboard::Event start = event_at(step);
  start.mutable_session_log()->set_status(tensorboard::SessionLog::START);
  append(start.SerializeAsString());
  flush();
}

EventFile::~EventFile() {
  flush();
  if (!waiting_.empty() || left_out_ > 0)
    spdlog::warn("{} lacks its last events: there was no room for them", path_.string());
  ::close(descriptor_);
}

void EventFile::write_scalars(std::int64_t step, const std::vector<std::pair<std::string, float>>& scalars) {
  tensorboard::Event event = event_at(step);
  for (const auto& [tag, number] : scalars) {
    tensorboard::Summary::Value& value = *event.mutable_summary()->add_value();
    value.set_tag(tag);
    value.set_simple_value(number);
  }
  append(event.SerializeAsString());
}

void EventFile::write_text(std::int64_t step, const std::string& tag, const std::string& text) {
  tensorboard::Event event = event_at(step);
  tensorboard::Summary::Value& value = *event.mutable_summary()->add_value();
  value.set_tag(tag);
  value.mutable_metadata()->mutable_plugin_data()->set_plugin_name("text");
  value.mutable_metadata()->set_data_class(tensorboard::DATA_CLASS_TENSOR);
  value.mutable_tensor()->set_dtype(tensorboard::DT_STRING);
  value.mutable_tensor()->mutable_tensor_shape()->add_dim()->set_size(1);
  value.mutable_tensor()->add_string_val(text);
  append(event.SerializeAsString());
}

void EventFile::write_image(std::int64_t step, const std::string& tag, std::string png) {
  constexpr std::string_view kBegin = "\x89PNG\r\n\x1a\n";
  constexpr std::size_t kSizeAt = 16;  // of the first chunk: width and height, big-endian
  if (is_too_large(tag, png.size())) return;
  if (!png.starts_with(kBegin) || png.size() < kSizeAt + 8) {
    spdlog::warn("{}: the image {} is no PNG file: it is left out", path_.string(), tag);
    return;
  }
  const auto number_at = [&](std::size_t at) {
    std::uint32_t number = 0;
    for (std::size_t i = 0; i < 4; ++i) number = number << 8 | static_cast<unsigned char>(png[at + i]);
    return static_cast<std::int32_t>(number);
  };
  tensorboard::Event event = event_at(step);
  tensorboard::Summary::Value& value = *event.mutable_summary()->add_value();
  value.set_tag(tag);
  tensorboard::Summary::Image& image = *value.mutable_image();
  image.set_width(number_at(kSizeAt));
  image.set_height(number_at(kSizeAt + 4));
  image.set_colorspace(4);
  image.set_encoded_image_string(std::move(png));
  append(event.SerializeAsString());
}

// Buckets of one width, as many as TensorBoard draws.
void EventFile::write_histogram(std::int64_t step, const std::string& tag, std::span<const float> numbers) {
  constexpr std::size_t kBuckets = 30;
  tensorboard::Event event = event_at(step);
  tensorboard::Summary::Value& value = *event.mutable_summary()->add_value();
  value.set_tag(tag);
  double least = std::numeric_limits<double>::infinity();
  double most = -least, count = 0, sum = 0, squares = 0;
  for (const float number : numbers) {
    if (!std::isfinite(number)) continue;
    least = std::min(least, double{number});
    most = std::max(most, double{number});
    ++count;
    sum += number;
    squares += double{number} * number;
  }
  if (count == 0) return;
  const double width = (most - least) / kBuckets;
  std::array<double, kBuckets> buckets{};
  for (const float number : numbers) {
    if (!std::isfinite(number)) continue;
    const double place = width > 0 ? (number - least) / width : 0;
    ++buckets[std::min(static_cast<std::size_t>(place), kBuckets - 1)];
  }
  tensorboard::Histogram& histogram = *value.mutable_histo();
  histogram.set_min(least);
  histogram.set_max(most);
  histogram.set_num(count);
  histogram.set_sum(sum);
  histogram.set_sum_squares(squares);
  for (std::size_t i = 0; i < kBuckets; ++i) {
    histogram.add_bucket_limit(i + 1 == kBuckets ? most : least + width * static_cast<double>(i + 1));
    histogram.add_bucket(buckets[i]);
  }
  append(event.SerializeAsString());
}

void EventFile::write_graph(std::string graph_def) {
  if (is_too_large("the graph", graph_def.size())) return;
  tensorboard::Event event = event_at(0);
  event.set_graph_def(std::move(graph_def));
  append(event.SerializeAsString());
}

// What waits is written first, so that only its own size counts.
bool EventFile::is_too_large(std::string_view what, std::size_t bytes) {
  constexpr std::size_t kMost = kMostWaitingBytes - 1024;  // with what stands around it
  flush();
  if (bytes <= kMost) return false;
  spdlog::warn("{}: {} has {} bytes, {} at most: it is left out", path_.string(), what, bytes, kMost);
  return true;
}

void EventFile::append(std::string_view event) {
  if (left_out_ > 0 || waiting_.size() + event.size() >= kMostWaitingBytes) {
    ++left_out_;
  } else {
    std::string length;
    append_number(length, std::uint64_t{event.size()});
    waiting_ += length;
    append_number(waiting_, masked_crc(length));
    waiting_ += event;
    append_number(waiting_, masked_crc(event));
  }
  if (std::chrono::steady_clock::now() - flushed_ >= std::chrono::seconds(1)) flush();
}

// All that waits or nothing: what a full disk takes a part of is taken back.
void EventFile::flush() {
  flushed_ = std::chrono::steady_clock::now();
  std::size_t written = 0;
  while (written < waiting_.size()) {
    const ssize_t count =
        file_calls().write(descriptor_, waiting_.data() + written, waiting_.size() - written);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) break;
    written += static_cast<std::size_t>(count);
  }
  if (written == waiting_.size()) {
    size_ += written;
    waiting_.clear();
    return;
  }
  const int reason = errno;
  if (written > 0 && file_calls().ftruncate(descriptor_, static_cast<off_t>(size_)) != 0) {
    // Readers stop at half a record: what follows must be its other half.
    size_ += written;
    waiting_.erase(0, written);
  }
  if (std::exchange(has_warned_, true)) return;
  spdlog::warn("{}: cannot write: {}: training goes on, and the events wait in memory for room",
               path_.string(), std::strerror(reason));
}

}  // namespace rookery
