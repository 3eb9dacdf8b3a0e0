// Bytes of any number between two members of a group, as messages that are small enough for every plan.
#pragma once

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

 private:
  Link& link_;
};

}  // namespace rookery
