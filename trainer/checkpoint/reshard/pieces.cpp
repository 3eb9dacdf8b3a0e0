#include "trainer/checkpoint/reshard/pieces.hpp"

#include <fmt/format.h>

#include "models/base/error.hpp"

namespace rookery {
namespace {

constexpr std::uint64_t kLongestText = 1U << 30;
constexpr double kLongest = 1ULL << 47;  // of which there are fewer pieces than a key counts

MessageKey piece_key(const std::string& name, std::uint64_t number) {
  return {.kind = MessageKind::kCheckpoint, .micro_batch = static_cast<std::int32_t>(number), .edge = name};
}

MessageKey length_key(const std::string& name) {
  return {.kind = MessageKind::kCheckpoint, .edge = "length of " + name};
}

TensorType type_of(std::size_t bytes) {
  return {DType::kU8, Shape{static_cast<std::int64_t>(bytes)}};
}

}  // namespace

void Pieces::send(int to, const std::string& name, std::span<const std::byte> bytes) {
  for_each_piece(bytes.size(), [&](std::uint64_t number, std::uint64_t at, std::size_t count) {
    send_piece(to, name, number, bytes.subspan(at, count));
  });
}

void Pieces::receive(int from, const std::string& name, std::span<std::byte> bytes) {
  for_each_piece(bytes.size(), [&](std::uint64_t number, std::uint64_t at, std::size_t count) {
    receive_piece(from, name, number, bytes.subspan(at, count));
  });
}

void Pieces::send_text(int to, const std::string& name, const std::string& text) {
  send_length(to, name, text.size());
  send(to, name, std::as_bytes(std::span(text)));
}

std::string Pieces::receive_text(int from, const std::string& name) {
  const std::uint64_t length = receive_length(from, name);
  if (length > kLongestText)
    throw TransportError(fmt::format("receive {} from {}: a text of {} bytes", name, from, length));
  std::string text(length, ' ');
  receive(from, name, std::as_writable_bytes(std::span(text)));
  return text;
}

void Pieces::send_length(int to, const std::string& name, std::uint64_t length) {
  send_number(link_, to, length_key(name), static_cast<double>(length));
}

std::uint64_t Pieces::receive_length(int from, const std::string& name) {
  const double length = receive_number(link_, from, length_key(name));
  if (!(length >= 0 && length <= kLongest))
    throw TransportError(fmt::format("receive {} from {}: it has {} bytes", name, from, length));
  return static_cast<std::uint64_t>(length);
}

void Pieces::send_piece(int to, const std::string& name, std::uint64_t number,
                        std::span<const std::byte> bytes) {
  link_.send(to, piece_key(name, number), {type_of(bytes.size()), bytes.data()});
}

void Pieces::receive_piece(int from, const std::string& name, std::uint64_t number,
                           std::span<std::byte> bytes) {
  link_.receive(from, piece_key(name, number), {type_of(bytes.size()), bytes.data()});
}

}  // namespace rookery
