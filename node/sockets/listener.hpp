// The TCP socket at which a program waits for others to connect. It is bound before anything else is done, so
// that a taken port is found at once; whoever connects then waits in the kernel's queue, which costs this
// process nothing, until somebody accepts.
#pragma once

#include <string>

#include "node/sockets/address.hpp"

namespace rookery {

class Listener {
 public:
  // TransportError naming `who` listens, the address and, when the port is taken, the process that holds it;
  // `other_port` says how people give it another one. A host name is resolved here; one that this machine
  // knows as 127.0.1.1 alone, as Debian does with its own name, means all of its addresses.
  Listener(const std::string& who, const Address& address, const std::string& other_port);
  ~Listener();
  Listener(const Listener&) = delete;
  Listener& operator=(const Listener&) = delete;

  // The host as it was given, with the port that was bound where 0 was asked for.
  const Address& address() const { return address_; }
  // Non-blocking.
  int descriptor() const { return descriptor_; }

  // While it turns newcomers away, the kernel drops what they send (socket(7), SO_ATTACH_FILTER), and they
  // try again by themselves. At most 64 have been let into the queue before. Connections that stand are not
  // touched.
  void turn_away(bool newcomers);

 private:
  Address address_;
  int descriptor_ = -1;
};

}  // namespace rookery
