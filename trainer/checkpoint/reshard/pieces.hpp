// Bytes of any number between two members of a group, as messages that are small enough for every plan.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "trainer/link.hpp"

namespace rookery {

// No message of it is larger.
constexpr std::uint64_t kCheckpointPieceBytes = 1U << 16;

// One thread; the link outlives it. A name is used once from one member to another. TransportError as Link.
class Pieces {
 public:
  explicit Pieces(Link& link) : link_(link) {}

  void send(int to, const std::string& name, std::span<const std::byte> bytes);
  void receive(int from, const std::string& name, std::span<std::byte> bytes);

  void send_text(int to, const std::string& name, const std::string& text);
  std::string receive_text(int from, const std::string& name);

  // The same one by one, for bytes that are handed on without being kept: first how many, then pieces of
  // kCheckpointPieceBytes, but for the last one, by their numbers.
  void send_length(int to, const std::string& name, std::uint64_t length);
  std::uint64_t receive_length(int from, const std::string& name);
  void send_piece(int to, const std::string& name, std::uint64_t number, std::span<const std::byte> bytes);
  void receive_piece(int from, const std::string& name, std::uint64_t number, std::span<std::byte> bytes);

 private:
  Link& link_;
};

// Calls `use` with the number, place and size of every piece of so many bytes.
template <typename Use>
void for_each_piece(std::uint64_t bytes, const Use& use) {
  for (std::uint64_t at = 0; at < bytes; at += kCheckpointPieceBytes)
    use(at / kCheckpointPieceBytes, at,
        static_cast<std::size_t>(std::min(kCheckpointPieceBytes, bytes - at)));
}

}  // namespace rookery
