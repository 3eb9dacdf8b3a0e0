#include "node/sockets/monitor.hpp"

#include <gtest/gtest.h>
#include <poll.h>

namespace rookery {
namespace {

// Whoever does the I/O sleeps on its descriptor before he has read anything.
TEST(Monitor, TellsOfTheFirstEventByItsDescriptor) {
  zmq::context_t context(1);
  zmq::socket_t listener(context, zmq::socket_type::router);
  listener.bind("tcp://127.0.0.1:*");
  zmq::socket_t socket(context, zmq::socket_type::dealer);
  Monitor monitor(context, socket, ZMQ_EVENT_HANDSHAKE_SUCCEEDED);
  pollfd item{.fd = monitor.socket().get(zmq::sockopt::fd), .events = POLLIN, .revents = 0};
  EXPECT_EQ(::poll(&item, 1, 0), 0);
  socket.connect(listener.get(zmq::sockopt::last_endpoint));
  constexpr int kMilliseconds = 20000;
  ASSERT_EQ(::poll(&item, 1, kMilliseconds), 1);
  const std::optional<Monitor::Event> event = monitor.next();
  ASSERT_TRUE(event);
  EXPECT_EQ(event->id, ZMQ_EVENT_HANDSHAKE_SUCCEEDED);
  monitor.close(socket);
}

}  // namespace
}  // namespace rookery
