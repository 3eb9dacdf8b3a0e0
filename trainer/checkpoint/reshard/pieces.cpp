#include "trainer/checkpoint/reshard/pieces.hpp"

#include <algorithm>

#include "models/base/error.hpp"
#include "models/base/libraries/format.hpp"

namespace rookery {
namespace {

constexpr double kLongestText = 1U << 30;

MessageKey piece_key(const std::string& name, std::uint64_t number) {
  return {.kind = MessageKind::kCheckpoint, .micro_batch = static_cast<std::int32_t>(number), .edge = name};
}

MessageKey length_key(const std::string& name) {
  return {.kind = MessageKind::kCheckpoint, .edge = "length of " + name};
}

TensorType type_of(std::size_t bytes) {
  return {DType::kU8, Shape{static_cast<std::int64_t>(bytes)}};
}

// Calls `use` with the key and the place of every piece of so many bytes.
template <typename Use>
void for_each_piece(const std::string& name, std::uint64_t bytes, const Use& use) {
  for (std::uint64_t at = 0; at < bytes; at += kCheckpointPieceBytes)
    use(piece_key(name, at / kCheckpointPieceBytes), at,
        static_cast<std::size_t>(std::min(kCheckpointPieceBytes, bytes - at)));
}

}  // namespace

void Pieces::send(int to, const std::string& name, std::span<const std::byte> bytes) {
  for_each_piece(name, bytes.size(), [&](const MessageKey& key, std::uint64_t at, std::size_t count) {
    link_.send(to, key, {type_of(count), bytes.data() + at});
  });
}

void Pieces::receive(int from, const std::string& name, std::span<std::byte> bytes) {
  for_each_piece(name, bytes.size(), [&](const MessageKey& key, std::uint64_t at, std::size_t count) {
    link_.receive(from, key, {type_of(count), bytes.data() + at});
  });
}

void Pieces::send_text(int to, const std::string& name, const std::string& text) {
  send_number(link_, to, length_key(name), static_cast<double>(text.size()));
  send(to, name, std::as_bytes(std::span(text)));
}

std::string Pieces::receive_text(int from, const std::string& name) {
  const double length = receive_number(link_, from, length_key(name));
  if (!(length >= 0 && length <= kLongestText))
    throw TransportError(fmt::format("receive {} from {}: a text of {} bytes", name, from, length));
  std::string text(static_cast<std::size_t>(length), ' ');
  receive(from, name, std::as_writable_bytes(std::span(text)));
  return text;
}

}  // namespace rookery
