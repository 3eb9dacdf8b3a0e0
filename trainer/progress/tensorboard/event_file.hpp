// A file of events that TensorBoard reads while it grows.
//
// Each event is a protobuf message in a record of its own, of TensorFlow's TFRecord format:
//
//     uint64 length   uint32 masked_crc(length)   length bytes   uint32 masked_crc(bytes)
//
// little-endian, where masked_crc is the CRC-32C (RFC 3720, B.4) turned right by 15 bits, plus 0xa282ead8.
// Sources: tensorflow.org/tutorials/load_data/tfrecord ("TFRecords format details"); the messages:
// tensorboard_events.proto.
#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace rookery {

// CRC-32C, masked as records have it.
std::uint32_t masked_crc(std::string_view bytes);

// One thread. What cannot be written waits in memory for room, at most a MiB of it, with a warning: it is no
// reason to end a training. The file always ends with a whole record, but for a moment within a write.
class EventFile {
 public:
  // A new file in `folder`, which exists, named so that readers take it for later than those that are there:
  // events.out.tfevents.SECONDS.HOST.PROCESS. Readers forget what other files of the folder have of `step`
  // and later steps. DataError when it cannot be made.
  EventFile(const std::filesystem::path& folder, std::int64_t step);
  ~EventFile();
  EventFile(const EventFile&) = delete;
  EventFile& operator=(const EventFile&) = delete;

  // Numbers by tag, all of one step.
  void write_scalars(std::int64_t step, const std::vector<std::pair<std::string, float>>& scalars);
  // Markdown.
  void write_text(std::int64_t step, const std::string& tag, const std::string& text);
  // A PNG file's bytes. What is none, or larger than may wait, is left out with a warning.
  void write_image(std::int64_t step, const std::string& tag, std::string png);
  // Numbers, of which those that are none (NaN, infinity) are left out.
  void write_histogram(std::int64_t step, const std::string& tag, std::span<const float> numbers);
  // A GraphDef (graph_def.hpp). One that is larger than may wait is left out with a warning.
  void write_graph(std::string graph_def);
  // Hands all to the system. Writing does it by itself once a second.
  void flush();

  const std::filesystem::path& path() const { return path_; }

 private:
  void append(std::string_view event);
  bool is_too_large(std::string_view what, std::size_t bytes);

  std::filesystem::path path_;
  int descriptor_ = -1;
  std::string waiting_;        // whole records, not written yet
  std::uint64_t size_ = 0;     // of the file
  std::int64_t left_out_ = 0;  // records that did not find room in memory
  bool has_warned_ = false;
  std::chrono::steady_clock::time_point flushed_;
};

}  // namespace rookery
