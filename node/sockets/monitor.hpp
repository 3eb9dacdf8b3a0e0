// A monitor tells what happens to the connections of a ZeroMQ socket. Private to `Router` and
// `Connector`.
#pragma once

#include <cstdint>
#include <optional>
#include <zmq.hpp>

namespace rookery {

class Monitor {
 public:
  Monitor() = default;  // of no socket
  // `events` are ZMQ_EVENT_… of `socket`; before it is bound or connected.
  Monitor(zmq::context_t& context, zmq::socket_ref socket, int events);

  // To poll.
  zmq::socket_ref socket() { return socket_; }
  // The next event, and its value; nothing when there is none.
  struct Event {
    std::uint16_t id = 0;
    std::uint32_t value = 0;
  };
  std::optional<Event> next();
  // Before the monitored socket is closed: it would wait for a monitor that nobody reads.
  void close(zmq::socket_ref monitored);

 private:
  zmq::socket_t socket_;
};

}  // namespace rookery
