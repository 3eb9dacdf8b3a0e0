// A connection of somebody who knows nothing of a plan, byte by byte.
#pragma once

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstdint>
#include <fstream>
#include <stdexcept>
#include <string>

#include "models/base/process/process_memory.hpp"
#include "node/sockets/address.hpp"

namespace rookery {

// The memory that this process has. A sanitizer keeps what is freed, so that nothing is to be told of it
// then.
inline std::int64_t resident_bytes() {
#ifdef ROOKERY_SANITIZED
  return 0;
#endif
  return process_memory().resident;
}

class RawStranger {
 public:
  // `waits`: until it is connected. Otherwise it is when it is let in, if ever.
  explicit RawStranger(const std::string& address, bool waits = true)
      : socket_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | (waits ? 0 : SOCK_NONBLOCK), 0)) {
    sockaddr_in where{};
    where.sin_family = AF_INET;
    where.sin_port = htons(Address::parse(address).port);
    where.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    if (::connect(socket_, reinterpret_cast<const sockaddr*>(&where), sizeof where) != 0 && waits)
      throw std::runtime_error("the stranger cannot connect");
  }
  ~RawStranger() { ::close(socket_); }
  RawStranger(const RawStranger&) = delete;
  RawStranger& operator=(const RawStranger&) = delete;

  // False once the other side has closed the connection.
  bool send(const std::string& bytes) {
    for (std::size_t done = 0; done < bytes.size();) {
      const ssize_t sent = ::send(socket_, bytes.data() + done, bytes.size() - done, MSG_NOSIGNAL);
      if (sent <= 0) return false;
      done += static_cast<std::size_t>(sent);
    }
    return true;
  }

  // False when the other side has closed the connection before.
  bool receive(void* into, std::size_t size) {
    return ::recv(socket_, into, size, MSG_WAITALL) == static_cast<ssize_t>(size);
  }

  // ZMTP 3.0's greeting (RFC 23) with this security mechanism.
  static std::string greeting(std::string mechanism) {
    mechanism.resize(20, '\0');
    return "\xff" + std::string(8, '\0') + "\x7f" + std::string("\3\0", 2) + mechanism +
           std::string(32, '\0');
  }
  // A frame's head: flags and a length of eight bytes.
  static std::string large_frame(std::uint64_t size, char flags) {
    std::string head(1, flags);
    for (int shift = 56; shift >= 0; shift -= 8) head += static_cast<char>(size >> shift);
    return head;
  }

 private:
  int socket_;
};

}  // namespace rookery
